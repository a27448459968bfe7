// How a PostgreSQL server is reached. A server with several hosts is reached through whatever follows its primary
// (admin/primary.ts): the wire asks it for a host, and tells it which connections to cut.

export type Host = Readonly<{ host: string; port: number }>;

export type PrimaryHost = {
  readonly hosts: readonly Host[];
  /** The primary, as far as it is known. */
  readonly host: Host;
  /** Opens a connection to the primary. Tries a second time if another host turns out to be the primary. */
  connect<T>(open: (host: Host) => Promise<T>): Promise<T>;
  /** Registers a connection. Returns how to forget it. */
  hold(host: Host, cut: () => void): () => void;
};

export type ServerAddress = Readonly<{
  host: string;
  port: number;
  user: string;
  password: string;
  database: string;
  /** `servername`: where `host` is the address that a name was resolved to. */
  tls: false | { rejectUnauthorized: boolean; servername?: string };
  /** A Unix socket of the same server, if there is one: cheaper than TCP. */
  socket?: string;
  /** How long a login may take. */
  connectMs?: number;
  /** The server's hosts. With it, `host` and `port` are those of the first, and connections go to the primary only. */
  primary?: PrimaryHost;
}>;
