import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, test } from 'node:test'
import { backoff } from '#domain/backoff.ts'
import { type Clock, systemClock } from '#runtime/clock.ts'
import type { ThreadSpec } from '#runtime/host.ts'
import { inTime } from '#runtime/in-time.ts'
import type { SupervisorOptions } from '#runtime/supervised.ts'
import { makeSupervisor, type Supervisor } from '#runtime/supervisor.ts'
import { eventually } from '../support/eventually.ts'

const echo: ThreadSpec = {
  name: 'echo',
  kind: 'echo',
  entry: new URL('./threads/echo.ts', import.meta.url),
  data: {},
  links: ['asker'],
  terminable: true,
}
const asker: ThreadSpec = {
  name: 'asker',
  kind: 'asker',
  entry: new URL('./threads/asker.ts', import.meta.url),
  data: {},
  links: ['echo'],
  terminable: true,
}

/** All supervisors are stopped after each test, because threads of a failed test would keep this process alive. */
const supervisors: Supervisor[] = []
afterEach(async () => {
  for (const supervisor of supervisors.splice(0)) await supervisor.stop()
})

function supervisorOf(threads: ThreadSpec[], options: Partial<SupervisorOptions> = {}) {
  const lines: string[] = []
  const gaveUp: string[] = []
  const log = (_fields: object, message: string) => void lines.push(message)
  const supervisor = makeSupervisor({
    clock: systemClock,
    log: { info: log, warn: log, error: log },
    startTimeoutMs: 120_000,
    stopTimeoutMs: 120_000,
    // A thread that briefly gets no CPU time must not count as hanging.
    healthIntervalMs: 60_000,
    restartPauseMs: (restarts) => backoff(1, 10, restarts),
    restartsMax: 5,
    restartWindowMs: 60_000,
    onGivingUp: (thread) => gaveUp.push(thread),
    ...options,
  })
  supervisors.push(supervisor)
  return { supervisor, start: () => supervisor.start(threads), lines, gaveUp }
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

test('a thread that is killed while it has requests is restarted, and every request is answered', async () => {
  const { supervisor, start } = supervisorOf([echo, asker])
  await start()
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
  // `stop` waits until each request of the asker thread has an answer.
  assert.equal(await supervisor.stop(), true)
  assert(before.unanswered > 0)
  assert.equal(before.wrong, 0)
})

test('a thread with its own limit for young-generation memory gets that limit, and other threads get the default', async () => {
  const roomy = { ...echo, name: 'roomy', links: [], youngMb: 120 }
  const { supervisor, start } = supervisorOf([{ ...echo, links: [] }, roomy])
  await start()
  const [usual, given] = (await supervisor.metrics()).flat() as { youngMb: number }[]
  assert.equal(given?.youngMb, 120)
  assert.ok(usual !== undefined && usual.youngMb < 120, `${usual?.youngMb}`)
  assert.equal(await supervisor.stop(), true)
})

test('the supervisor stops restarting a thread that dies repeatedly', async () => {
  const { supervisor, start, gaveUp } = supervisorOf([echo], { restartsMax: 2 })
  await start()
  for (let kill = 0; kill < 3; kill++) {
    await eventually(() => assert(supervisor.health().echo?.ready))
    await supervisor.kill('echo')
    await eventually(() => assert(!supervisor.health().echo?.ready))
  }
  await eventually(() => assert.deepEqual(gaveUp, ['echo']))
  assert.equal(await supervisor.stop(), true)
})

test('the supervisor retries a failed restart of a thread', async () => {
  const failStarts = new Int32Array(new SharedArrayBuffer(4))
  const { supervisor, start } = supervisorOf([{ ...echo, data: { failStarts } }])
  await start()
  Atomics.store(failStarts, 0, 2)
  await supervisor.kill('echo')
  await eventually(() => assert(!supervisor.health().echo?.ready))
  await eventually(() => assert(supervisor.health().echo?.ready))
  assert(Atomics.load(failStarts, 0) < 0)
  assert.equal(await supervisor.stop(), true)
})

test('if a thread does not start, the error names the thread and the reason, and all other threads are stopped', async () => {
  const failStarts = new Int32Array(new SharedArrayBuffer(4))
  Atomics.store(failStarts, 0, 1)
  const { supervisor, start } = supervisorOf([asker, { ...echo, data: { failStarts } }])
  await assert.rejects(start(), /echo did not start: the cellar is flooded/)
  assert.equal(await supervisor.stop(), true)
})

test('a thread that does not stop within the time limit is logged and terminated', async () => {
  const { supervisor, start, lines } = supervisorOf([{ ...echo, data: { keepAlive: true } }], {
    stopTimeoutMs: 300,
  })
  await start()
  assert.equal(await supervisor.stop(), false)
  assert(lines.includes('echo did not stop in time'))
})

test('a thread exits even if it receives a message port while it stops', async () => {
  const data = { stopsAfter: new Int32Array(new SharedArrayBuffer(4)) }
  const linker: ThreadSpec = {
    ...{ name: 'linker', kind: 'linker', data, links: [], terminable: true },
    entry: new URL('./threads/linker.ts', import.meta.url),
  }
  const { supervisor, start } = supervisorOf([linker, { ...echo, links: [], data }])
  await start()
  assert.equal(await supervisor.stop(), true)
})

test('the supervisor terminates and restarts a thread that hangs', async () => {
  const hangs = new Int32Array(new SharedArrayBuffer(4))
  const { supervisor, start, lines } = supervisorOf([{ ...echo, data: { hangs } }], {
    healthIntervalMs: 100,
    restartsMax: 1_000,
  })
  await start()
  Atomics.store(hangs, 0, 1)
  await eventually(() => assert(lines.includes('echo is back')))
  assert.equal(await supervisor.stop(), true)
})

test('the supervisor does not restart a busy thread that misses health checks but still makes progress', async () => {
  const busy = new Int32Array(new SharedArrayBuffer(8))
  let steps = 0
  let isOver = false
  // The next health check runs only after the thread has made progress. On a busy machine, the thread may get no CPU
  // time between two checks.
  const clock: Clock = {
    ...systemClock,
    after(_delayMs, check) {
      const look = setInterval(() => {
        if (Atomics.load(busy, 1) === steps && !isOver) return
        steps = Atomics.load(busy, 1)
        clearInterval(look)
        check()
      }, 5)
      return () => clearInterval(look)
    },
  }
  const { supervisor, start, lines } = supervisorOf([{ ...echo, data: { busy } }], {
    healthIntervalMs: 500,
    clock,
  })
  const threadId = async () => {
    const [metric] = (await supervisor.metrics()).flat() as { threadId: number }[]
    assert(metric !== undefined)
    return metric.threadId
  }
  await start()
  const before = await eventually(threadId)
  Atomics.store(busy, 0, 1)
  Atomics.store(busy, 1, 1)
  const isBusy = (line: string) => line === 'echo is too busy to answer'
  await eventually(() => assert(lines.filter(isBusy).length >= 5))
  assert.equal(supervisor.health().echo?.ready, false)
  Atomics.store(busy, 0, 0)
  assert.equal(await eventually(threadId), before)
  isOver = true
  await eventually(() => assert(supervisor.health().echo?.ready))
  assert.equal(await eventually(threadId), before)
  assert.equal(await supervisor.stop(), true)
})

/** A thread with sockets cannot be terminated, only interrupted. */
const bound: ThreadSpec = { ...echo, name: 'bound', links: [], terminable: false }

async function threadIdOf(supervisor: Supervisor): Promise<number> {
  const [metric] = (await supervisor.metrics()).flat() as { threadId: number }[]
  assert(metric !== undefined)
  return metric.threadId
}

test('the supervisor restarts a socket thread in an endless loop, and the other threads continue', async () => {
  const hangs = new Int32Array(new SharedArrayBuffer(4))
  const threads = [
    { ...bound, data: { hangs } },
    { ...echo, links: [] },
  ]
  const options = { healthIntervalMs: 100, restartsMax: 1_000 }
  const { supervisor, start, lines, gaveUp } = supervisorOf(threads, options)
  await start()
  const before = await threadIdOf(supervisor)
  Atomics.store(hangs, 0, 1)
  await eventually(() => assert(lines.includes('bound is back')))
  assert(lines.some((line) => line.startsWith('bound hangs')))
  await eventually(async () => assert.notEqual(await threadIdOf(supervisor), before))
  assert.deepEqual(gaveUp, [])
  assert.equal(await supervisor.stop(), true)
})

test('the supervisor does not restart a thread that waits without using CPU time', async () => {
  const waits = new Int32Array(new SharedArrayBuffer(4))
  const { supervisor, start, lines } = supervisorOf([{ ...bound, data: { waits } }], {
    healthIntervalMs: 100,
  })
  await start()
  const before = await eventually(() => threadIdOf(supervisor))
  Atomics.store(waits, 0, 1)
  await eventually(() => assert(lines.includes('bound has not answered 8 health checks')))
  Atomics.store(waits, 0, 0)
  Atomics.notify(waits, 0)
  await eventually(() => assert(supervisor.health().bound?.ready))
  assert.equal(await threadIdOf(supervisor), before)
  assert(!lines.some((line) => line.startsWith('bound hangs')), lines.join('; '))
  assert.equal(await supervisor.stop(), true)
})

test('a thread that cannot be terminated yet is reported, and restarted once it ends, while other threads continue', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'sibyl-gate-'))
  t.after(() => rm(folder, { recursive: true }))
  const gate = join(folder, 'gate')
  await writeFile(gate, '')
  const waits = new Int32Array(new SharedArrayBuffer(4))
  const threads = [
    { ...bound, data: { waits, gate } },
    { ...echo, links: [] },
  ]
  const options = { healthIntervalMs: 50, stopTimeoutMs: 500, restartsMax: 1_000 }
  const { supervisor, start, lines, gaveUp } = supervisorOf(threads, options)
  await start()
  Atomics.store(waits, 0, 2)
  const isReported = (line: string) => line.startsWith('bound hangs and cannot be ended')
  await eventually(() => assert(lines.filter(isReported).length >= 2, lines.join('; ').slice(-600)))
  assert.deepEqual(gaveUp, [])
  assert.equal(supervisor.health().bound?.ready, false)
  await eventually(() => assert(supervisor.health().echo?.ready))
  // The thread is no longer blocked: it receives the stop, ends, and is restarted.
  Atomics.store(waits, 0, 0)
  await rm(gate)
  await eventually(() => assert(lines.includes('bound is back')))
  assert.deepEqual(gaveUp, [])
  await supervisor.stop()
})

test('if the supervisor is stopped during its start, no thread remains running', async () => {
  const { supervisor, start } = supervisorOf([echo, asker])
  const started = start()
  assert.equal(await supervisor.stop(), true)
  await started
  assert(!Object.values(supervisor.health()).some(({ ready }) => ready))
})

test('threads assigned to one host share a worker, but have separate links, health and metrics', async () => {
  const shared = { host: 'pair', links: ['asker'] }
  const left = { ...echo, ...shared, name: 'left' }
  const right = { ...echo, ...shared, name: 'echo' }
  const { supervisor, start, lines } = supervisorOf([left, right, asker])
  await start()
  assert.deepEqual(Object.keys(supervisor.health()).sort(), ['asker', 'echo', 'left'])
  const threadIds = ((await supervisor.metrics()).flat() as { threadId?: number }[])
    .map(({ threadId }) => threadId)
    .filter((id) => id !== undefined)
  assert.equal(threadIds.length, 2)
  assert.equal(new Set(threadIds).size, 1)
  await eventually(async () => assert((await countsOf(supervisor)).answered > 100))
  // If one of the threads dies, both are restarted and linked again.
  await supervisor.kill('left')
  await eventually(() => assert(lines.includes('pair is back')))
  const before = await countsOf(supervisor)
  await eventually(async () => {
    assert((await countsOf(supervisor)).answered > before.answered + 100)
  })
  assert.equal(await supervisor.stop(), true)
})

test('if a thread that shares a worker does not start, the error names that thread', async () => {
  const failStarts = new Int32Array(new SharedArrayBuffer(4))
  Atomics.store(failStarts, 0, 1)
  const shared = { host: 'pair', links: [] }
  const { supervisor, start } = supervisorOf([
    { ...echo, ...shared, name: 'left' },
    { ...echo, ...shared, name: 'right', data: { failStarts } },
  ])
  await assert.rejects(start(), /^Error: right did not start: the cellar is flooded$/)
  assert.equal(await supervisor.stop(), true)
})

test('the supervisor starts a thread in its preloaded worker, and a stop also ends unused preloaded workers', async () => {
  const { supervisor, start } = supervisorOf([{ ...echo, links: [] }])
  supervisor.preload([echo, { ...echo, name: 'nobody' }])
  await start()
  assert(supervisor.health().echo?.ready)
  assert.equal(await supervisor.stop(), true)
})

test('a stop waits until preloaded workers have loaded, and then ends them', async () => {
  const { supervisor } = supervisorOf([], { stopTimeoutMs: 1 })
  supervisor.preload([echo, asker])
  assert.equal(await supervisor.stop(), true)
})

test('a stop during the restart of a thread waits for the restart and then ends the thread', async () => {
  const startsUnderWay = new Int32Array(new SharedArrayBuffer(4))
  const { supervisor, start, lines } = supervisorOf([
    { ...echo, links: [], data: { startsUnderWay } },
  ])
  await start()
  await supervisor.kill('echo')
  // The thread is in the middle of its second start.
  await eventually(() => assert.equal(Atomics.load(startsUnderWay, 0), 2))
  assert.equal(await supervisor.stop(), true)
  assert(!lines.includes('echo did not stop in time'))
})

test('if the supervisor is stopped while a thread waits for its restart, the thread is not restarted', async () => {
  const { supervisor, start, lines } = supervisorOf([{ ...echo, links: [] }], {
    restartPauseMs: () => 600_000,
  })
  await start()
  await supervisor.kill('echo')
  await eventually(() => assert(lines.some((line) => line.includes('it is started again in'))))
  assert.equal(await supervisor.stop(), true)
})

test('an optional thread is restarted however often it dies, with growing pauses', async () => {
  const pauses: number[] = []
  const { supervisor, start, gaveUp } = supervisorOf([{ ...echo, links: [], optional: true }], {
    restartsMax: 1,
    optionalPauseMs(deaths) {
      pauses.push(deaths)
      return 1
    },
  })
  await start()
  for (let kill = 1; kill <= 5; kill++) {
    await supervisor.kill('echo')
    await eventually(() => {
      const { ready, optional, deaths } = supervisor.health().echo!
      assert.deepEqual({ ready, optional, deaths }, { ready: true, optional: true, deaths: kill })
    })
  }
  assert.deepEqual(pauses, [0, 1, 2, 3, 4])
  assert.deepEqual(gaveUp, [])
  assert.equal(await supervisor.stop(), true)
})

test('the restart pauses of an optional thread are short again after the thread was healthy for a while', async () => {
  const pauses: number[] = []
  let now = 0
  const { supervisor, start } = supervisorOf([{ ...echo, links: [], optional: true }], {
    clock: { nowMs: () => now, after: systemClock.after },
    optionalPauseMs: (deaths) => pauses.push(deaths),
  })
  await start()
  for (const wellMs of [0, 0, 60_000, 0]) {
    now += wellMs
    const before = supervisor.health().echo!.deaths
    await supervisor.kill('echo')
    await eventually(() => {
      const { ready, deaths } = supervisor.health().echo!
      assert.deepEqual([ready, deaths], [true, before + 1])
    })
  }
  assert.deepEqual(pauses, [0, 1, 0, 1])
  assert.equal(await supervisor.stop(), true)
})

test('an optional thread that fails to start does not prevent other threads from starting', async () => {
  const failStarts = new Int32Array(new SharedArrayBuffer(4))
  Atomics.store(failStarts, 0, 3)
  const optional = { ...echo, data: { failStarts }, optional: true }
  const { supervisor, start } = supervisorOf([optional, asker])
  await start()
  assert(supervisor.health().asker?.ready)
  // After three failed starts the echo thread starts, and is linked to the asker.
  await eventually(async () => assert((await countsOf(supervisor)).answered > 100))
  assert.equal(supervisor.health().echo?.deaths, 3)
  assert.equal(await supervisor.stop(), true)
})

test('a metrics request does not wait for a thread that dies during the request', async () => {
  const { supervisor, start } = supervisorOf([echo, asker], { healthIntervalMs: 600_000 })
  await start()
  const asked = supervisor.metrics()
  await supervisor.kill('echo')
  const told = ((await inTime(asked, 120_000)) ?? []).flat() as Partial<Counts>[]
  assert(told.some((metric) => metric.asked !== undefined))
  assert.equal(await supervisor.stop(), true)
})

test('an optional thread with invalid settings makes the start fail', async () => {
  const optional = { ...echo, data: { unfit: true }, links: [], optional: true }
  const { supervisor, start } = supervisorOf([optional])
  await assert.rejects(start(), /echo did not start: the roof leaks/)
  assert.equal(await supervisor.stop(), true)
})

test('if the settings of a required thread have become invalid, the supervisor does not retry its restart', async () => {
  const data = { unfit: false }
  const { supervisor, start, gaveUp, lines } = supervisorOf([{ ...echo, data, links: [] }])
  await start()
  data.unfit = true
  await supervisor.kill('echo')
  await eventually(() => assert.deepEqual(gaveUp, ['echo']))
  assert.equal(lines.filter((line) => line.includes('it is started again')).length, 1)
  assert.equal(await supervisor.stop(), true)
})

test('if a worker with several optional threads keeps dying, the supervisor gives each thread its own worker', async () => {
  const diesInRow = new Int32Array(new SharedArrayBuffer(4))
  Atomics.store(diesInRow, 0, 1_000)
  const shared = { host: 'pair', optional: true }
  const sound = { ...echo, ...shared }
  const ill = { ...echo, ...shared, name: 'ill', links: [], data: { failStarts: diesInRow } }
  const { supervisor, start, lines, gaveUp } = supervisorOf([sound, ill, asker], { restartsMax: 2 })
  await start()
  await eventually(() => assert(supervisor.health().echo?.ready))
  assert(lines.includes('each thread of pair gets a worker of its own'))
  await eventually(async () => assert((await countsOf(supervisor)).answered > 100))
  assert(!supervisor.health().ill?.ready)
  Atomics.store(diesInRow, 0, 0)
  await eventually(() => assert(supervisor.health().ill?.ready))
  assert.deepEqual(gaveUp, [])
  assert.equal(await supervisor.stop(), true)
})

test('if optional threads wait for their restart, a stop succeeds and does not start them', async () => {
  const failStarts = new Int32Array(new SharedArrayBuffer(4))
  Atomics.store(failStarts, 0, 1_000)
  const shared = { host: 'pair', optional: true, links: [] }
  const left = { ...echo, ...shared, name: 'left', data: { failStarts } }
  const { supervisor, start, lines } = supervisorOf([left, { ...echo, ...shared }], {
    restartsMax: 0,
    optionalPauseMs: () => 600_000,
  })
  await start()
  assert(lines.includes('each thread of pair gets a worker of its own'))
  assert.equal(await supervisor.stop(), true)
  assert.equal(Atomics.load(failStarts, 0), 999)
})

test('if a thread was started on another thread’s request, the supervisor reports its end instead of restarting it', async () => {
  const failStarts = new Int32Array(new SharedArrayBuffer(4)).fill(1)
  const caller: ThreadSpec = {
    ...{ name: 'caller', kind: 'caller', data: {}, links: [], terminable: true },
    entry: new URL('./threads/caller.ts', import.meta.url),
  }
  const { supervisor, lines } = supervisorOf([])
  await supervisor.start([caller], [{ ...echo, data: { failStarts } }])
  const told = async () => {
    const all = (await supervisor.metrics()).flat() as { told?: string[] }[]
    return all.find((metric) => metric.told !== undefined)?.told ?? []
  }
  const round = ['handed: true', 'answered: {"n":1}', 'begun: echo']
  await eventually(async () => {
    assert.deepEqual(await told(), [
      'early: false',
      'failed: echo did not start: the cellar is flooded',
      ...round,
    ])
  })
  assert.equal(supervisor.health().echo?.ready, true)
  await supervisor.kill('echo')
  await eventually(async () => {
    assert.deepEqual((await told()).slice(5), ['ended: ended with code 1', ...round])
  })
  assert(!lines.some((line) => line.includes('started again')), lines.join('\n'))
  assert.equal(await supervisor.stop(), true)
  assert.equal(supervisor.health().echo, undefined)
})
