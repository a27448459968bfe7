import { Badge } from '../ui/badge.tsx';

const shown = 5;

/** The column of members and invitations that shows which projects they see. */
export const projectsColumn = {
  title: 'Projects',
  cell: ({ projects }: { projects: readonly string[] | null }) => {
    if (projects === null) return <span className="faint">all</span>;
    if (projects.length === 0) return <span className="faint">none</span>;
    return (
      <span className="row row-wrap" title={projects.join(', ')}>
        {projects.slice(0, shown).map((slug) => (
          <Badge key={slug}>{slug}</Badge>
        ))}
        {projects.length > shown ? <span className="faint">and {projects.length - shown} more</span> : null}
      </span>
    );
  },
};
