// npm run pack: the packages as tarballs in dist/packages, as npm would publish them, and how to install them.
import path from 'node:path';
import { root, setup } from './setup.mjs';
import { packAndCheck, publishedPackages, tarballName } from './tarballs.mjs';

const folder = 'dist/packages';

setup();
const packages = publishedPackages(root);
const versions = Object.fromEntries(packages.map(({ manifest }) => [manifest.name, manifest.version]));
try {
  await packAndCheck(root, packages, versions, path.join(root, folder));
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
const file = (name) => `${folder}/${tarballName(name, versions[name])}`;
const ofService = packages.map(({ manifest }) => manifest.name).filter((name) => name !== '@rowhouse/client');
console.log(`The packages are in ${folder}.

The service and the rowhouse command, for all users of a machine:
  sudo npm install --prefix /opt/rowhouse ${ofService.map(file).join(' ')}
  sudo ln -sf /opt/rowhouse/node_modules/.bin/rowhouse /usr/local/bin/rowhouse

The TypeScript client, in your application:
  npm install ${path.join(root, file('@rowhouse/client'))}`);
