// Asks before signing out discards texts that the server could not store. If the session ended meanwhile, the question is
// asked over the sign-in: texts that stay are shown again to a person with the same rights.
import { useEffect, useState } from 'react';
import type { Lost } from '../sql/keep-drafts.ts';
import { Confirm } from '../ui/confirm.tsx';
import { questions } from './session.ts';

type Question = { lost: readonly Lost[]; answer: (mayDiscard: boolean) => void };

export function DiscardDialog() {
  const [question, setQuestion] = useState<Question | null>(null);
  useEffect(() => {
    questions.discard = (lost) => new Promise((answer) => setQuestion({ lost, answer }));
    return () => {
      questions.discard = async () => false;
    };
  }, []);
  if (!question) return null;
  const finish = (mayDiscard: boolean) => {
    question.answer(mayDiscard);
    setQuestion(null);
  };
  return (
    <Confirm
      title="Discard unsaved SQL?"
      action="Discard and sign out"
      onConfirm={() => finish(true)}
      onClose={() => finish(false)}
    >
      <p>The server did not store these texts. Signing out discards them:</p>
      <ul>
        {question.lost.map(({ id, slug, title }) => (
          <li key={id}>
            {title} in {slug}
          </li>
        ))}
      </ul>
    </Confirm>
  );
}
