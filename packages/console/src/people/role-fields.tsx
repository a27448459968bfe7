// The role of a member, and for the roles that can be limited, the projects.
import type { Role } from '@rowhouse/api';
import { rolesBelow } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { SelectField } from '../ui/field.tsx';
import { ProjectsField } from './projects-field.tsx';
import { roleTexts } from './role-texts.ts';
import './people.css';

export type RoleChoice = { role: Role; projects: readonly string[] | null };

export const canBeLimited = (role: Role) => role === 'viewer' || role === 'developer';

/** A member who sees some projects sees at least one. */
export const isChosen = ({ role, projects }: RoleChoice) =>
  !canBeLimited(role) || projects === null || projects.length > 0;

/** What is sent: only some roles can be limited. */
export const toBody = ({ role, projects }: RoleChoice) => ({
  role,
  ...(canBeLimited(role) && { projects }),
});

type Props = { value: RoleChoice; onChange: (value: RoleChoice) => void };

export function RoleFields({ value, onChange }: Props) {
  const { role, projects } = value;
  return (
    <>
      <SelectField
        label="Role"
        value={role}
        onChange={(next) => onChange({ role: next as Role, projects })}
        options={rolesBelow(useSession())}
        help={roleTexts[role]}
      />
      {canBeLimited(role) ? (
        <ProjectsField value={projects} onChange={(next) => onChange({ role, projects: next })} />
      ) : null}
    </>
  );
}
