# An exchange in a container: `docker build -t sibyl .`; compose.yaml runs it beside a MariaDB.
FROM node:22-bookworm-slim AS built
# A compiler makes signature checks about twice as fast.
RUN apt-get update && apt-get install -y --no-install-recommends python3 make g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/sibyl
COPY package.json package-lock.json .npmrc ./
COPY src/loader ./src/loader
# The image has its own Node 22: the one that npm brings would be 120 MB more.
RUN npm ci --omit=dev && rm -r node_modules/node node_modules/.bin/node
COPY config ./config
COPY contracts ./contracts
COPY workers ./workers
COPY src ./src
COPY LICENSE README.md CHANGELOG.md ./
COPY docs ./docs
# The user of the exchange cannot write here, so the sources are prepared now.
RUN node src/loader/prepare.js

FROM node:22-bookworm-slim
# The system's library checks signatures about a fifth faster than the one that npm builds.
RUN apt-get update && apt-get install -y --no-install-recommends libsecp256k1-1 && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/sibyl
COPY --from=built /opt/sibyl /opt/sibyl
RUN mkdir /var/lib/sibyl && chown node:node /var/lib/sibyl
ENV SIBYL_PROFILE=production \
    SIBYL_DATA_DIR=/var/lib/sibyl \
    SIBYL_ADMIN_HOST=0.0.0.0 \
    SIBYL_ADMIN_PORT=9464
USER node
VOLUME /var/lib/sibyl
EXPOSE 8080 9464
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:9464/readyz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "--import", "./src/loader/hooks.js", "src/main.cjs"]
