// Whether the service with these settings is ready, for the health check of a container: exit status 0 or 1.
import { get as httpGet } from 'node:http';
import { get as httpsGet } from 'node:https';
import { readConfig } from '../settings/config.ts';

const withinMs = 2_500;

const { host, port, tlsCert } = readConfig(process.env, process.cwd());
const target = {
  host: host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host,
  port,
  path: '/readyz',
  timeout: withinMs,
  // The certificate is for the public name. Nothing is sent that another program on this port could use.
  rejectUnauthorized: false,
};
(tlsCert === null ? httpGet : httpsGet)(target, ({ statusCode }) => process.exit(statusCode === 200 ? 0 : 1))
  .on('error', () => process.exit(1))
  .on('timeout', () => process.exit(1));
