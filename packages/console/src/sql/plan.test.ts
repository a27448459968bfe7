import { expect, it } from 'vitest';
import { estimateChanges, readPlan, totalMs } from './plan.ts';

const scan = {
  'Node Type': 'Seq Scan',
  'Relation Name': 'teas',
  'Total Cost': 5,
  'Plan Rows': 1,
  'Actual Rows': 50,
  'Actual Loops': 2,
  'Actual Total Time': 3,
};
const plan = {
  'Node Type': 'Nested Loop',
  'Total Cost': 9,
  'Plan Rows': 100,
  'Actual Rows': 100,
  'Actual Loops': 1,
  'Actual Total Time': 10,
  Plans: [scan],
};

it('time is that of the node alone, over all loops, and a wrong estimate is measured', () => {
  const read = readPlan({ columns: ['QUERY PLAN'], rows: [{ 'QUERY PLAN': [{ Plan: plan }] }] });
  expect(read).toMatchObject({ title: 'Nested Loop', selfMs: 4, rows: 100, misestimate: 1 });
  expect(read.children[0]).toMatchObject({
    about: 'on teas',
    selfMs: 6,
    rows: 100,
    loops: 2,
    misestimate: 50,
  });
  expect(totalMs(read)).toBe(10);
});

it('a plan that did not run has costs only', () => {
  const read = readPlan({
    columns: ['p'],
    rows: [{ p: JSON.stringify([{ Plan: { 'Node Type': 'Result', 'Total Cost': 1, 'Plan Rows': 1 } }]) }],
  });
  expect(read).toMatchObject({ selfMs: null, rows: null, misestimate: null, cost: 1 });
});

it('estimates the rows that a statement changes, those of changes inside WITH included', () => {
  const node = (type: string, rows: number, relationship: string, ...children: object[]) => ({
    'Node Type': type,
    'Plan Rows': rows,
    'Parent Relationship': relationship,
    Plans: children,
  });
  const answer = (root: object) => ({ columns: ['p'], rows: [{ p: JSON.stringify([{ Plan: root }]) }] });
  const inner = node('ModifyTable', 0, 'InitPlan', node('Seq Scan', 40, 'Outer'));
  const outer = node(
    'ModifyTable',
    0,
    '',
    inner,
    node('Hash Join', 300, 'Outer', node('Seq Scan', 900, 'Outer')),
  );
  expect(estimateChanges(answer(outer))).toBe(340);
  expect(estimateChanges(answer(node('Seq Scan', 40, '')))).toBeNull();
});
