import { useEffect, useState } from 'react';
import { type Asked, onQuestion } from './ask.ts';
import { Confirm } from './confirm.tsx';

/** Once per page. A new question answers the one before it with no. */
export function QuestionDialog() {
  const [asked, setAsked] = useState<Asked | null>(null);
  useEffect(
    () =>
      onQuestion((next) =>
        setAsked((before) => {
          before?.answer(false);
          return next;
        }),
      ),
    [],
  );
  if (!asked) return null;
  const { title, action, about, items = [], answer } = asked;
  const finish = (isYes: boolean) => {
    setAsked(null);
    answer(isYes);
  };
  return (
    <Confirm title={title} action={action} onConfirm={() => finish(true)} onClose={() => finish(false)}>
      <p>{about}</p>
      {items.length > 0 ? (
        <ul>
          {items.map((item) => (
            <li key={item}>{item}</li>
          ))}
        </ul>
      ) : null}
    </Confirm>
  );
}
