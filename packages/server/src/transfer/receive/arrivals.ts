// How many uploads of an account may arrive at once in this process.
import { errors } from '../../errors/errors.ts';

export function openArrivals(mostPerAccount: number) {
  const arriving = new Map<string, number>();
  return {
    count: async <T>(accountId: string, act: () => Promise<T>): Promise<T> => {
      const now = arriving.get(accountId) ?? 0;
      if (now >= mostPerAccount) throw errors.tooManyUploads(mostPerAccount);
      arriving.set(accountId, now + 1);
      try {
        return await act();
      } finally {
        const left = (arriving.get(accountId) ?? 1) - 1;
        if (left > 0) arriving.set(accountId, left);
        else arriving.delete(accountId);
      }
    },
  };
}
