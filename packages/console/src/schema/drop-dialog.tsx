import { type Alteration, alterations, nameOfTable, type ObjectKind } from '../tables/alter-sql.ts';
import { RunDdl } from '../tables/run-ddl.tsx';
import { Dialog } from '../ui/dialog.tsx';

/** An object of a table that can be dropped. */
export type Droppable = { kind: ObjectKind; schema: string; table: string; name: string };
type Props = { slug: string; object: Droppable; onClose: () => void };

export function DropDialog({ slug, object, onClose }: Props) {
  const { kind, name } = object;
  const { sql, confirm }: Alteration = alterations[`drop-${kind}`];
  const of = { schema: object.schema, name: object.table };
  const values = { [kind]: name };
  return (
    <Dialog title={`Drop ${name}`} onClose={onClose}>
      <div className="stack">
        <RunDdl
          slug={slug}
          statements={sql(nameOfTable(of), values, of)}
          action={`Drop the ${kind}`}
          problem={null}
          done={`The ${kind} ${name} is dropped.`}
          confirm={confirm?.(of, values) ?? null}
          onDone={onClose}
        />
      </div>
    </Dialog>
  );
}
