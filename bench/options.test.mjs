import { describe, expect, it } from 'vitest';
import { readOptions } from './options.mjs';

const known = {
  seconds: { quick: 1, full: 3 },
  connections: 32,
  writers: { quick: [4], full: [1, 4, 16] },
  data: null,
  install: false,
};

describe('the options of a benchmark', () => {
  it('have the defaults of a full run', () => {
    expect(readOptions(known, [])).toEqual({
      quick: false,
      write: false,
      seconds: 3,
      connections: 32,
      writers: [1, 4, 16],
      data: null,
      install: false,
    });
  });

  it('have other defaults with --quick, and a given value beats both', () => {
    expect(readOptions(known, ['--quick'])).toMatchObject({ quick: true, seconds: 1, writers: [4] });
    expect(readOptions(known, ['--quick', '--seconds', '5', '--writers=2,8', '--write'])).toMatchObject({
      seconds: 5,
      writers: [2, 8],
      write: true,
    });
    expect(readOptions(known, ['--data', '12', '--install'])).toMatchObject({ data: '12', install: true });
  });

  it('accept an empty list', () => {
    expect(readOptions(known, ['--writers=']).writers).toEqual([]);
  });

  it.each([
    [['--seconds', 'ten'], '--seconds takes a number, not "ten".'],
    [['--seconds', ''], '--seconds takes a number, not "".'],
    [['--writers', '1,x'], '--writers takes a number, not "x".'],
    [['--no-such'], "Unknown option '--no-such'"],
  ])('refuse %j', (args, message) => {
    expect(() => readOptions(known, args)).toThrow(message);
  });
});
