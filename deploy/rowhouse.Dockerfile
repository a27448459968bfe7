# Rowhouse from this repository. docker build --file deploy/rowhouse.Dockerfile .
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
RUN npx tsc -b packages/api packages/server packages/cli
RUN npm run build --workspace packages/console
RUN npm ci --no-audit --no-fund --omit=dev

FROM node:20.20.2-bookworm-slim
ENV NODE_ENV=production \
  PATH="/rowhouse/node_modules/.bin:$PATH" \
  ROWHOUSE_HOST=0.0.0.0 \
  ROWHOUSE_DATA=/data \
  ROWHOUSE_LOG_TO=stderr
COPY --from=build /rowhouse /rowhouse
RUN install --directory --owner=node --group=node --mode=0700 /data
USER node
WORKDIR /data
VOLUME /data
EXPOSE 8765
# Ends the requests that run, within 15 s.
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "/rowhouse/packages/server/dist/main.js"]
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:8765/readyz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
