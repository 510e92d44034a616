import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type NodeReport, statusLines } from '#devnet/cluster/node-status.ts'

const THREADS = { marketThreads: 2, partitions: 4 }
const ok = { ok: true, why: '' }

function report(name: string, roles: string, rest: Partial<NodeReport>): NodeReport {
  const node = { name, roles, url: 'http://127.0.0.1:1' }
  return { node, state: 'ready', isCut: false, checks: {}, ...rest }
}

test('the cluster status shows each node’s state, roles and partitions, and the partitions without a node', () => {
  const lines = statusLines(
    [
      report('market-1', 'market', { checks: { bridge: ok, clock: ok, 'market-0': ok } }),
      report('market-2', 'market', { isCut: true, checks: { 'market-1': ok } }),
      report('market-3', 'market', { state: 'down' }),
      report('rest-1', 'store,chain,prices', {
        ...{ state: 'not ready', checks: { store: { ok: false, why: 'no database' } } },
      }),
      report('front-1', 'front', { state: 'silent' }),
    ],
    THREADS,
  )
  assert.deepEqual(lines, [
    'market-1   ready; roles market; at http://127.0.0.1:1; serves market-0 (partitions 0, 2)',
    'market-2   ready; roles market; cut off from NATS and the database; at http://127.0.0.1:1; serves market-1 (partitions 1, 3)',
    'market-3   down; roles market',
    'rest-1     not ready; roles store,chain,prices; at http://127.0.0.1:1; serves store; store: no database',
    'front-1    does not answer; roles front',
    'unserved   market-1 (partitions 1, 3)',
  ])
})
