# Rowhouse from this repository: docker build --tag rowhouse .
# docs/production.md says how to run it; deploy/machine has a compose file with TLS.
FROM node:20.20.2-bookworm-slim AS build
WORKDIR /rowhouse
COPY package.json package-lock.json ./
COPY packages/api/package.json packages/api/
COPY packages/server/package.json packages/server/
COPY packages/cli/package.json packages/cli/
COPY packages/client/package.json packages/client/
COPY packages/console/package.json packages/console/
RUN npm ci --no-audit --no-fund
COPY tsconfig.base.json ./
COPY packages packages
RUN npx tsc -b packages/api packages/server packages/cli && npm run build --workspace packages/console
# What the service itself needs, and nothing of the console's and the tests' libraries.
RUN npm ci --no-audit --no-fund --omit=dev --workspace packages/api --workspace packages/server --workspace packages/cli && mkdir -p packages/server/node_modules packages/cli/node_modules
# The pages that agents search.
COPY llms.txt README.md ./
COPY docs docs
COPY clients/python/README.md clients/python/
COPY scripts/llms-full.mjs scripts/
RUN node scripts/llms-full.mjs
RUN mkdir /image && cp -a --parents node_modules packages/api/package.json packages/api/dist packages/server/package.json packages/server/node_modules packages/server/dist packages/server/data packages/server/migrations packages/cli/package.json packages/cli/node_modules packages/cli/bin packages/cli/dist packages/console/dist /image && find /image \( -name '*.d.ts' -o -name '*.map' -o -name '*.tsbuildinfo' \) -delete

FROM node:20.20.2-bookworm-slim
# MALLOC_…: the same as rowhouse start sets (packages/cli/src/start.ts).
ENV NODE_ENV=production \
  PATH="/rowhouse/node_modules/.bin:$PATH" \
  ROWHOUSE_HOST=0.0.0.0 \
  ROWHOUSE_DATA=/data \
  ROWHOUSE_LOG_TO=stderr \
  MALLOC_MMAP_THRESHOLD_=131072 \
  MALLOC_TRIM_THRESHOLD_=131072
COPY --from=build /image /rowhouse
# A volume that is mounted for the first time takes the owner of its folder.
RUN install --directory --owner=node --group=node --mode=0700 /data /backups
# node, as a number, so that Kubernetes knows that it is not root.
USER 1000:1000
WORKDIR /data
VOLUME /data
EXPOSE 8765
# Ends the requests that run, within 15 s.
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "/rowhouse/packages/server/dist/main.js"]
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s \
  CMD ["node", "/rowhouse/packages/server/dist/programs/health.js"]
