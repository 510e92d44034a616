import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import type { ThreadData } from '#config/thread-data.ts'
import { frontThreadName } from '#config/topology.ts'
import { deepenBook } from '../../loadtest/hostile-setup.ts'
import { conflatedSnapshots, tickerTopics } from '../../loadtest/hostile-stream.ts'
import { eventually } from '../support/eventually.ts'
import type { Environment } from '../support/exchange.ts'
import { randomFrom } from '../support/random.ts'
import { holdToAnswers, type Life, makeOrders, newReport, settleAccounts } from './http-crash.ts'
import { startSupervised, untilReady } from './supervised-threads.ts'

const KILLS = 3
const ORDERS_PER_KILL = 60
const LANES = 8
/**
 * Duration of an attack in seconds. A front is interrupted after six missed health checks. An attack lasts twice as
 * long as six health check intervals.
 */
const ATTACK_SECONDS = 3

/**
 * The health check interval is long, so that a thread that briefly gets no CPU time misses no check. Only the hanging
 * front misses checks.
 */
const HANGING = {
  SIBYL_HEALTH_INTERVAL_MS: '2000',
  SIBYL_FRONT_THREADS: '2',
  SIBYL_LIMITS: 'false',
}
/** Without limits, the attackers can use all of the front's CPU time. */
const ATTACKED = {
  SIBYL_HEALTH_INTERVAL_MS: '250',
  SIBYL_FRONT_THREADS: '1',
  SIBYL_LIMITS: 'false',
  SIBYL_DEMO_MARKETS_MORE: '47',
}

function startThreads(t: TestContext, environment: Environment = {}, hangs?: Int32Array) {
  return startSupervised(t, {
    environment,
    specs(settings, common) {
      const thread = (kind: string, name: string, links: string[]) => ({
        name,
        kind,
        entry: new URL(`../../workers/${kind}.ts`, import.meta.url),
        data: { ...common, index: 0, settings, name } satisfies ThreadData,
        links,
        terminable: kind !== 'front',
      })
      const fronts = Array.from({ length: settings.front.threads }, (_, front) =>
        thread('front', frontThreadName(front), ['market-0', 'store']),
      )
      const [first, ...others] = fronts
      if (first === undefined) throw new Error('the settings have no front')
      const hanging = {
        ...first,
        entry: new URL('./hanging-front.ts', import.meta.url),
        data: { ...first.data, hangs },
      }
      return [
        thread('market', 'market-0', []),
        thread('store', 'store', ['market-0']),
        ...(hangs === undefined ? fronts : [hanging, ...others]),
      ]
    },
  })
}

test('if a market thread dies under load, the only errors that clients get are 503 answers', async (t) => {
  const { url, dataDir, supervisor } = await startThreads(t)
  const random = randomFrom(Number(process.env.TEST_SEED ?? 4_711))
  const client = createClient({ url, retries: 0, timeoutMs: 120_000 })
  const report = newReport()
  const lives: Life[] = []
  const received = new Map<string, number>()

  for (let kill = 0; kill < KILLS; kill++) {
    const batch = await makeOrders(random, ORDERS_PER_KILL)
    const killAt = random.int(5, ORDERS_PER_KILL / 2)
    const queue = [...batch]
    let answers = 0
    const lane = async (): Promise<void> => {
      for (let life = queue.shift(); life !== undefined; life = queue.shift()) {
        const word = await client.orders.submit(life.submission).then(
          ({ matches, timestamp }) => {
            life.answer = { matches, timestamp }
            return 'accepted'
          },
          (error: unknown) => {
            assert.ok(error instanceof SibylError)
            assert.equal(error.status, 503, `${error.code}: ${error.message}`)
            return error.code
          },
        )
        received.set(word, (received.get(word) ?? 0) + 1)
        if (++answers === killAt) await supervisor.kill('market-0')
      }
    }
    await Promise.all(Array.from({ length: LANES }, lane))
    report.kills++
    await untilReady(url)
    lives.push(...batch)
    await holdToAnswers({ url }, batch, report)
  }
  t.diagnostic(`${JSON.stringify(Object.fromEntries(received))}, seed ${random.seed}`)
  assert.deepEqual(
    [...received.keys()].filter(
      (word) => !['accepted', 'OUTCOME_UNKNOWN', 'OVERLOADED'].includes(word),
    ),
    [],
  )
  assert.ok((received.get('OUTCOME_UNKNOWN') ?? 0) > 0, 'a client noticed the kills')
  await settleAccounts({ url, dataDir }, lives, report)
})

/** Sends a request on each connection, and returns the connections that answer. */
async function answering(sockets: readonly Socket[]): Promise<Socket[]> {
  const answered = new Set<Socket>()
  for (const socket of sockets) {
    socket.once('data', () => answered.add(socket))
    socket.write('GET /healthz HTTP/1.1\r\nhost: exchange\r\n\r\n')
  }
  // Connections of the hanging front get no answer. An answer shows that the other front still works.
  await eventually(() => assert(answered.size > 0))
  return [...answered]
}

test('the supervisor restarts a front that hangs, while the other front continues to answer', async (t) => {
  const hangs = new Int32Array(new SharedArrayBuffer(4))
  const { url, supervisor } = await startThreads(t, HANGING, hangs)
  const port = Number(new URL(url).port)
  const sockets = Array.from({ length: 32 }, () => connect(port, '127.0.0.1'))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
  })
  for (const socket of sockets) socket.on('error', () => {})
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  Atomics.store(hangs, 0, 1)
  await eventually(() => assert.match(supervisor.health()['front-0']?.why ?? '', /not answered/))
  const going = new Set(await answering(sockets))
  const hanging = sockets.filter((socket) => !going.has(socket))
  assert(hanging.length > 0, 'one front hangs')
  assert.equal(supervisor.health()['front-0']?.ready, false)
  await eventually(() => assert.equal(supervisor.health()['front-0']?.deaths, 1), 240_000)
  await eventually(() => assert.equal(supervisor.health()['front-0']?.ready, true))
  assert.equal(supervisor.health()['front-1']?.deaths, 0)
  await eventually(() => assert(hanging.every(({ closed }) => closed)))
  await untilReady(url)
})

test('fronts under a flood of stream requests continue to answer, and no thread dies', async (t) => {
  const { url, supervisor } = await startThreads(t, ATTACKED)
  await deepenBook(url, 2_000)
  const attacks = await Promise.all([
    tickerTopics(url, '127.0.0.1', ATTACK_SECONDS),
    conflatedSnapshots(url, '127.0.0.1', ATTACK_SECONDS),
  ])
  for (const { framesSent } of attacks) assert(framesSent > 100, `${framesSent}`)
  await untilReady(url)
  for (const [name, { deaths }] of Object.entries(supervisor.health())) {
    assert.equal(deaths, 0, name)
  }
})
