// What went wrong and what to do next, as a whole page or inside a form.
import { type ApiError, toApiError } from '../api/error.ts';
import { Button } from './button.tsx';
import { Icon } from './icons.tsx';

/** `isPage`: it stands for the whole page, which then has no other heading. */
type Props = { error: unknown; onRetry?: () => void; isPage?: boolean };

export function ErrorState({ error, onRetry, isPage = false }: Props) {
  const Title = isPage ? 'h1' : 'h2';
  const problem = toApiError(error);
  return (
    <div className="state" role="alert">
      <span className="state-icon state-icon-bad">
        <Icon name="alert" size={20} />
      </span>
      <Title>{problem.message}</Title>
      {problem.hint ? <p>{problem.hint}</p> : null}
      {onRetry ? (
        <Button onClick={onRetry} icon={<Icon name="refresh" />}>
          Try again
        </Button>
      ) : null}
      <ErrorCode error={problem} />
    </div>
  );
}

export function ErrorNote({ error }: { error: unknown }) {
  const problem = toApiError(error);
  const { detail, hint } = problem.sql ?? {};
  return (
    <div className="note note-bad" role="alert">
      <p>{problem.message}</p>
      {detail ? <p>{detail}</p> : null}
      {problems(problem).map((text) => (
        <p key={text}>{text}</p>
      ))}
      {hint || problem.hint ? <p className="note-hint">{hint ?? problem.hint}</p> : null}
      <ErrorCode error={problem} />
    </div>
  );
}

function ErrorCode({ error }: { error: ApiError }) {
  const parts = [error.code, error.sql?.state, error.requestId].filter(Boolean);
  return <p className="error-code mono">{parts.join(' · ')}</p>;
}

/** The list in `details` of an invalid request, without what the message already says. */
function problems({ message, details }: ApiError): string[] {
  if (!Array.isArray(details)) return [];
  return details.flatMap((item: unknown) => {
    if (typeof item !== 'object' || item === null || !('problem' in item)) return [];
    const where = 'path' in item && item.path ? `${String(item.path)}: ` : '';
    const text = `${where}${String(item.problem)}`;
    return message.includes(text) ? [] : [text];
  });
}
