import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '#runtime/clock.ts'
import {
  makeSupervisor,
  type Supervisor,
  type SupervisorOptions,
  type ThreadSpec,
} from '#runtime/supervisor.ts'
import { eventually } from '../support/eventually.ts'

const echo: ThreadSpec = {
  name: 'echo',
  entry: new URL('./threads/echo.ts', import.meta.url),
  data: {},
  links: ['asker'],
  terminable: true,
}
const asker: ThreadSpec = {
  name: 'asker',
  entry: new URL('./threads/asker.ts', import.meta.url),
  data: {},
  links: ['echo'],
  terminable: true,
}

function supervisorOf(specs: ThreadSpec[], options: Partial<SupervisorOptions> = {}) {
  const lines: string[] = []
  const gaveUp: string[] = []
  const log = (_fields: object, message: string) => void lines.push(message)
  const supervisor = makeSupervisor({
    specs,
    clock: systemClock,
    log: { info: log, warn: log, error: log },
    startTimeoutMs: 120_000,
    stopTimeoutMs: 120_000,
    // A thread that had no core for a while must not be taken for one that hangs.
    healthIntervalMs: 60_000,
    restartBackoffMs: 1,
    restartBackoffMsMax: 10,
    restartsMax: 5,
    restartWindowMs: 60_000,
    onGivingUp: (thread) => gaveUp.push(thread),
    ...options,
  })
  return { supervisor, lines, gaveUp }
}

type Counts = {
  asked: number
  answered: number
  unanswered: number
  wrong: number
  connected: number
}

async function countsOf(supervisor: Supervisor): Promise<Counts> {
  const all = (await supervisor.metrics()).flat() as Partial<Counts>[]
  return all.find((metric) => metric.asked !== undefined) as Counts
}

test('a thread killed under requests comes back, and every request is answered', async () => {
  const { supervisor } = supervisorOf([echo, asker])
  await supervisor.start()
  for (let kill = 1; kill <= 3; kill++) {
    const before = await countsOf(supervisor)
    await eventually(async () => {
      const counts = await countsOf(supervisor)
      assert(counts.answered > before.answered + 100)
    })
    await supervisor.kill('echo')
    await eventually(async () => {
      assert.equal((await countsOf(supervisor)).connected, kill + 1)
    })
  }
  const before = await countsOf(supervisor)
  await eventually(async () => {
    assert((await countsOf(supervisor)).answered > before.answered + 100)
  })
  // The asker's drain ends only when all of its requests have an answer.
  assert.equal(await supervisor.stop(), true)
  assert(before.unanswered > 0)
  assert.equal(before.wrong, 0)
})

test('a thread has the memory for new objects that it was given, the others the usual', async () => {
  const roomy = { ...echo, name: 'roomy', links: [], youngMb: 120 }
  const { supervisor } = supervisorOf([{ ...echo, links: [] }, roomy])
  await supervisor.start()
  const [usual, given] = (await supervisor.metrics()).flat() as { youngMb: number }[]
  assert.equal(given?.youngMb, 120)
  assert.ok(usual !== undefined && usual.youngMb < 120, `${usual?.youngMb}`)
  assert.equal(await supervisor.stop(), true)
})

test('a thread that dies again and again is given up', async () => {
  const { supervisor, gaveUp } = supervisorOf([echo], { restartsMax: 2 })
  await supervisor.start()
  for (let kill = 0; kill < 3; kill++) {
    await eventually(() => assert(supervisor.health().echo?.ready))
    await supervisor.kill('echo')
    await eventually(() => assert(!supervisor.health().echo?.ready))
  }
  await eventually(() => assert.deepEqual(gaveUp, ['echo']))
  assert.equal(await supervisor.stop(), true)
})

test('a thread whose restart fails at first is started again', async () => {
  const failStarts = new Int32Array(new SharedArrayBuffer(4))
  const { supervisor } = supervisorOf([{ ...echo, data: { failStarts } }])
  await supervisor.start()
  Atomics.store(failStarts, 0, 2)
  await supervisor.kill('echo')
  await eventually(() => assert(!supervisor.health().echo?.ready))
  await eventually(() => assert(supervisor.health().echo?.ready))
  assert(Atomics.load(failStarts, 0) < 0)
  assert.equal(await supervisor.stop(), true)
})

test('a start that fails says which thread and why, and leaves nothing running', async () => {
  const failStarts = new Int32Array(new SharedArrayBuffer(4))
  Atomics.store(failStarts, 0, 1)
  const { supervisor } = supervisorOf([asker, { ...echo, data: { failStarts } }])
  await assert.rejects(supervisor.start(), /echo did not start: the cellar is flooded/)
  assert.equal(await supervisor.stop(), true)
})

test('a thread that does not end by itself is told of and ended', async () => {
  const { supervisor, lines } = supervisorOf([{ ...echo, data: { keepAlive: true } }], {
    stopTimeoutMs: 300,
  })
  await supervisor.start()
  assert.equal(await supervisor.stop(), false)
  assert(lines.includes('echo did not stop in time'))
})

test('a thread that hangs is ended and started again', async () => {
  const hangs = new Int32Array(new SharedArrayBuffer(4))
  const { supervisor, lines } = supervisorOf([{ ...echo, data: { hangs } }], {
    healthIntervalMs: 100,
    restartsMax: 1_000,
  })
  await supervisor.start()
  Atomics.store(hangs, 0, 1)
  await eventually(() => assert(lines.includes('echo is back')))
  assert.equal(await supervisor.stop(), true)
})

test('a stop during the start ends what has started and starts nothing more', async () => {
  const { supervisor } = supervisorOf([echo, asker])
  const started = supervisor.start()
  assert.equal(await supervisor.stop(), true)
  await started
  assert(!Object.values(supervisor.health()).some(({ ready }) => ready))
})
