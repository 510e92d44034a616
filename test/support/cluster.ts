/** A small cluster for tests: nodes as processes of this machine, one NATS server and one database server. */

import type { TestContext } from 'node:test'
import { type Environment, type Exchange, openExchange, startExchange } from './exchange.ts'
import { type NatsServer, startNats } from './nats.ts'

export type TestCluster = {
  readonly nats: NatsServer
  /** Starts a node with these roles, separated by commas. The settings in `its` apply to this node only. */
  readonly node: (name: string, roles: string, its?: Environment) => Promise<Exchange>
}

/** Maximum length of a node's output that is shown after a failure. */
const OUTPUT_CHARS_MAX = 40_000

/** Starts a cluster whose nodes end with the test. */
export async function startCluster(
  t: TestContext,
  fresh: () => Promise<string>,
  environment: Environment = {},
): Promise<TestCluster> {
  const nats = await startNats(t)
  const shared = { ...sharedBy(nats, await fresh(), await fresh()), ...environment }
  return {
    nats,
    node: (name, roles, its) => {
      const own = { ...shared, SIBYL_ROLES: roles, SIBYL_NODE: name, ...its }
      return startExchange(t, { environment: own, outputCharsMax: OUTPUT_CHARS_MAX })
    },
  }
}

/** Starts a node that the caller has to stop. */
export function openNode(shared: Environment, name: string, roles: string): Promise<Exchange> {
  return openExchange({
    environment: { ...shared, SIBYL_ROLES: roles, SIBYL_NODE: name },
    outputCharsMax: OUTPUT_CHARS_MAX,
  })
}

export function sharedBy(nats: NatsServer, logUrl: string, databaseUrl: string): Environment {
  return {
    SIBYL_NATS_URL: nats.url,
    SIBYL_LOG_URL: logUrl,
    SIBYL_DATABASE_URL: databaseUrl,
    SIBYL_MARKET_THREADS: '1',
    SIBYL_FRONT_THREADS: '1',
    // A long limit, because on a busy machine a live node may be silent for several seconds.
    SIBYL_CLUSTER_SILENCE_MS: '5000',
    // Markets stay where the test has placed them.
    SIBYL_CLUSTER_REBALANCE_MS: '0',
    SIBYL_LOG_LEVEL: 'info',
  }
}
