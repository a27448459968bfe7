// What a new project needs, created or imported: its name, slug and limit; and its key, which is shown once.
import { SecretLine } from '../ui/code.tsx';
import { Field } from '../ui/field.tsx';

export type NewProject = { name: string; slug: string; limitMb: string };
export const emptyProject: NewProject = { name: '', slug: '', limitMb: '512' };

/** For the API, which derives the slug from the name if there is none. */
export const bodyOf = ({ name, slug, limitMb }: NewProject) => ({
  name: name.trim(),
  limit_mb: Number(limitMb),
  ...(slug && { slug }),
});

type Props = {
  project: NewProject;
  onChange: (part: Partial<NewProject>) => void;
  limitHelp: string;
  autoFocus?: boolean;
};

export function ProjectFields({ project, onChange, limitHelp, autoFocus = false }: Props) {
  return (
    <>
      <Field
        label="Name"
        value={project.name}
        onChange={(name) => onChange({ name })}
        maxLength={100}
        required
        autoFocus={autoFocus}
        placeholder="My Shop"
      />
      <Field
        label="Slug"
        value={project.slug}
        onChange={(slug) => onChange({ slug })}
        placeholder="from the name"
        help="Names the project in every address. It cannot be changed."
        mono
      />
      <Field
        label="Size limit"
        value={project.limitMb}
        onChange={(limitMb) => onChange({ limitMb })}
        inputMode="numeric"
        pattern="[0-9]+"
        required
        suffix="MB"
        help={limitHelp}
      />
    </>
  );
}

export function ProjectKey({ apiKey }: { apiKey: string }) {
  return (
    <>
      <p className="note note-warn">
        This is the project key. Copy it now: it is not shown again. Keep it on your server, never in a
        browser.
      </p>
      <SecretLine text={apiKey} label="Project key" />
    </>
  );
}
