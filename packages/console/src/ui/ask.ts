// A question to the person from code that is not a component. QuestionDialog shows it and gives the answer.
export type Question = { title: string; action: string; about: string; items?: readonly string[] };
export type Asked = Question & { answer: (isYes: boolean) => void };

const unheard = ({ answer }: Asked) => answer(false);
let show: (asked: Asked) => void = unheard;

export function ask(question: Question): Promise<boolean> {
  return new Promise((answer) => show({ ...question, answer }));
}

export function onQuestion(next: (asked: Asked) => void): () => void {
  show = next;
  return () => {
    show = unheard;
  };
}
