// The project of a request by or about end users, and what its key may do.

export type AuthContext = Readonly<{
  projectId: string;
  accountId: string;
  serverId: number;
  passwordVersion: number;
  slug: string;
  /** The key is publishable: it is in browsers, so everyone has it. */
  isPublic: boolean;
  mayManage: boolean;
  /** The end user's address: the client's with a publishable key, otherwise the one the application sent, or null. */
  address: string | null;
}>;
