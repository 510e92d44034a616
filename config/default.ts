/** The value of every setting before a profile or the environment says otherwise. */

import type { Settings } from './settings.ts'

export const defaults: Settings = {
  profile: 'default',
  service: { name: 'Sibyl' },
  front: {
    host: '127.0.0.1',
    port: 8080,
    threads: 1,
    corsOrigins: [],
    deadlineMs: 10_000,
    requestsInFlightMax: 10_000,
    trustedProxies: [],
  },
  auth: { bearer: true, allowOpenWrites: false, singleUseNonce: true, noncesMax: 2_000_000 },
  limits: {
    enabled: true,
    bucketsMax: 200_000,
    ipPerSecond: 500,
    ipBurst: 2_000,
    keyPerSecond: 1_000,
    keyBurst: 4_000,
    readCost: 1,
    writeCost: 5,
    registrationCost: 100,
  },
  data: { dir: 'data' },
  database: { url: '', queryThreads: 1 },
  markets: {
    threads: 1,
    partitions: 8,
    pins: {},
    mailboxMax: 100_000,
    snapshotEvery: 100_000,
  },
  matching: { selfTrade: 'allow' },
  verify: { threads: 2 },
  chains: [],
  demoMarkets: false,
  supervisor: {
    startTimeoutMs: 300_000,
    stopTimeoutMs: 10_000,
    healthIntervalMs: 2_000,
    restartBackoffMs: 100,
    restartBackoffMsMax: 10_000,
    restartsMax: 5,
    restartWindowMs: 60_000,
  },
  log: { level: 'info', format: 'auto' },
}
