// The unit of systemd for the service, and the file with its settings.

export type UnitOptions = { node: string; program: string; user: string; data: string; environment: string };

/** Values come from the installer, which has checked them: paths without spaces, and the name of a user. */
export function unitText({ node, program, user, data, environment }: UnitOptions): string {
  return `[Unit]
Description=Rowhouse
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=exec
ExecStart=${node} ${program} start
User=${user}
Group=${user}
WorkingDirectory=${data}
Environment=ROWHOUSE_DATA=${data}
# Settings and secrets: docs/configuration.md.
EnvironmentFile=-${environment}
# ${data}, of this user alone.
StateDirectory=${data.replace(/^\/var\/lib\//, '')}
StateDirectoryMode=0700
UMask=0077

# SIGTERM to the service alone, which stops PostgreSQL when requests have ended.
KillMode=mixed
TimeoutStopSec=60
Restart=on-failure
RestartSec=2
# PostgreSQL survives the loss of one of its processes; systemd would stop everything.
OOMPolicy=continue
LimitNOFILE=65536
LimitCORE=0

# For ports below 1024, and nothing else.
CapabilityBoundingSet=CAP_NET_BIND_SERVICE
AmbientCapabilities=CAP_NET_BIND_SERVICE
NoNewPrivileges=yes
# Everything but the data is read-only. For backups in a folder: systemctl edit rowhouse, ReadWritePaths=/mnt/backups
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
DevicePolicy=closed
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
# @pkey: Node.js protects the code that it compiles with it.
SystemCallFilter=@system-service @pkey
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM
# Not MemoryDenyWriteExecute: Node.js and PostgreSQL compile code while they run.

[Install]
WantedBy=multi-user.target
`;
}

export const environmentText = `# Settings of the service, one a line. Only root can read this file. After a change: systemctl restart rowhouse
#ROWHOUSE_HOST=0.0.0.0
#ROWHOUSE_PORT=443
#ROWHOUSE_TLS_CERT=/etc/rowhouse/fullchain.pem
#ROWHOUSE_TLS_KEY=/etc/rowhouse/privkey.pem
#ROWHOUSE_CONSOLE_HOSTS=db.example.com
#ROWHOUSE_TRUSTED_PROXIES=loopback
#ROWHOUSE_BACKUP_URL=s3://bucket/prefix?region=eu-central-1
#AWS_ACCESS_KEY_ID=
#AWS_SECRET_ACCESS_KEY=
`;
