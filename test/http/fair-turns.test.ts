import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { WAITING_BYTES_MAX } from '#domain/limits.ts'
import {
  ADDRESSES_MAX,
  type FairTurns,
  makeFairTurns,
  QUIET_MS,
  SLICE_MS,
} from '#http/fair-turns.ts'
import { route } from '#http/route.ts'
import { eventually } from '../support/eventually.ts'
import { openRaw, readResponses, startTestFront } from './front-fixture.ts'

function fixture() {
  const done: string[] = []
  const slices: (() => void)[] = []
  let nowMs = 1_000
  const turns = makeFairTurns({ nowMs: () => nowMs, soon: (slice) => void slices.push(slice) })
  const work = (name: string, ms: number) => () => {
    done.push(name)
    nowMs += ms
  }
  /**
   * Does the work at once if it is the turn of this IP address. Otherwise queues the work, and returns false if the
   * queue is full.
   */
  const ask = (ip: string, name = ip, ms = SLICE_MS / 2): boolean => {
    const run = work(name, ms)
    const beganMs = turns.begin(ip)
    if (beganMs === undefined) return turns.wait(ip, { bytes: 0, run, refuse: () => undefined })
    run()
    turns.done(ip, beganMs)
    return true
  }
  const pass = (ms: number) => {
    nowMs += ms
  }
  return { turns, done, ask, pass, slice: () => slices.shift()?.(), slices }
}

test('when requests must wait for the event loop, the IP address that used the least time comes first', () => {
  const { done, ask, slice, slices } = fixture()
  for (let count = 1; count <= 6; count++) ask('a', `a${count}`)
  for (let count = 1; count <= 4; count++) ask('b', `b${count}`)
  assert.deepEqual(done.splice(0), ['a1', 'a2', 'b1'], 'b has done nothing for a while')
  slice()
  assert.deepEqual(done.splice(0), ['b2', 'a3'])
  slice()
  assert.deepEqual(done.splice(0), ['b3', 'a4'])
  slice()
  assert.deepEqual(done.splice(0), ['b4', 'a5'])
  slice()
  assert.deepEqual(done.splice(0), ['a6'])
  assert.equal(slices.length, 0, 'nothing is planned while nothing waits')
})

test('an IP address with cheap requests gets more answers than one with expensive requests', () => {
  const { done, ask, slice } = fixture()
  for (let count = 0; count < 20; count++) {
    ask('dear', 'dear', 2 * SLICE_MS)
    ask('cheap', 'cheap', SLICE_MS / 4)
  }
  for (let count = 0; count < 8; count++) slice()
  const counted = Map.groupBy(done, (name) => name)
  assert((counted.get('cheap')?.length ?? 0) >= 3 * (counted.get('dear')?.length ?? 0), done.join())
})

test('an IP address that has just been quiet is served before addresses whose requests already wait', () => {
  const { done, ask, pass } = fixture()
  for (let each = 0; each < 100; each++) for (let count = 0; count < 10; count++) ask(`${each}`)
  done.length = 0
  ask('modest')
  ask('modest')
  pass(QUIET_MS)
  ask('another')
  assert.deepEqual(done, ['modest', 'another'], 'its second request waits')
})

test('one waiting task resumes per event-loop turn, and its time is charged to its IP address', async () => {
  const { turns, pass, slice, slices } = fixture()
  assert.equal(turns.next('a'), undefined)
  const resumed: string[] = []
  turns.done('b', 990)
  const wanted = ['a', 'b', 'a', 'b'].map((ip) => {
    return turns.next(ip)?.then(() => {
      resumed.push(ip)
      pass(ip === 'a' ? 100 : 1)
    })
  })
  assert(wanted.every((each) => each !== undefined))
  for (let count = 1; count <= wanted.length; count++) {
    slice()
    await new Promise(setImmediate)
    assert.equal(resumed.length, count)
  }
  assert.deepEqual(resumed, ['a', 'b', 'b', 'a'])
  slice()
  assert.equal(slices.length, 0)
})

test('requests of very many IP addresses do not erase the time that busy addresses have used', () => {
  const { turns } = fixture()
  for (let at = 0; at < ADDRESSES_MAX; at++) turns.done(`address ${at}`, 990)
  turns.done('one more', 990)
  assert.equal(turns.begin(`address ${ADDRESSES_MAX - 1}`), undefined)
})

test('if too many bytes wait, work of the IP address with the most waiting bytes is refused', () => {
  const { turns } = fixture()
  const refused: string[] = []
  const wait = (ip: string, bytes: number) =>
    turns.wait(ip, { bytes, run: () => undefined, refuse: () => void refused.push(ip) })
  assert(wait('greedy', WAITING_BYTES_MAX / 2))
  assert(wait('greedy', WAITING_BYTES_MAX / 4))
  assert(wait('less', WAITING_BYTES_MAX / 4))
  assert(wait('modest', 1_000))
  assert.deepEqual(refused, ['greedy'])
})

test('the number of waiting requests has a limit per IP address and a limit in total', () => {
  const { turns } = fixture()
  const refused: string[] = []
  const wait = (ip: string) =>
    turns.wait(ip, { bytes: 0, run: () => undefined, refuse: () => void refused.push(ip) })
  for (let count = 0; count < 1_000; count++) assert(wait('many'))
  assert(!wait('many'))
  for (let each = 0; turns.waiting() < 5_000; each++) wait(`${each % 10}`)
  assert.deepEqual(refused, [])
  wait('modest')
  assert.deepEqual(refused, ['many'])
  assert.equal(turns.waiting(), 5_000)
})

/** Starts a front on which the test decides which address may continue. */
async function startSlowFront(t: TestContext) {
  const free = new Set<string>()
  const waiting: (() => void)[] = []
  let isFull = false
  const turns: FairTurns = {
    begin: (ip) => (free.has(ip) ? 0 : undefined),
    done: () => undefined,
    next: () => undefined,
    wait(_, { run }) {
      if (!isFull) waiting.push(run)
      return !isFull
    },
    waiting: () => waiting.length,
  }
  const services = { readiness: () => ({}), limit: () => ({ allowed: true, headers: {} }) }
  const options = { services, turns }
  const { front, finishSlow } = await startTestFront(t, { trustedProxies: ['127.0.0.1'] }, options)
  const ask = async (ip: string, request: string) => {
    const socket = await openRaw(front.port)
    t.after(() => socket.destroy())
    const answered = readResponses(socket, 1).then(([response]) => response)
    socket.write(request.replace('\r\n\r\n', `\r\nhost: a\r\nx-forwarded-for: ${ip}\r\n\r\n`))
    return { socket, answered }
  }
  const fill = () => {
    isFull = true
  }
  return { front, ask, free, waiting, fill, finishSlow }
}

const GREEDY = '203.0.113.1'
const MODEST = '203.0.113.2'
const WHO = 'GET /who HTTP/1.1\r\n\r\n'
const BODY = '{"a":5}'
const MAYBE =
  `POST /maybe HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: ${BODY.length}` +
  `\r\n\r\n${BODY}`

test('waiting requests of one IP address delay neither requests of other addresses nor health checks', async (t) => {
  const { front, ask, free, waiting } = await startSlowFront(t)
  free.add(MODEST)
  const read = await ask(GREEDY, WHO)
  const write = await ask(GREEDY, MAYBE)
  const gone = await ask(GREEDY, WHO)
  await eventually(() => assert.equal(waiting.length, 3))
  assert.equal((await (await ask(MODEST, MAYBE)).answered)?.status, 200)
  assert.equal((await (await ask(GREEDY, WHO.replace('/who', '/healthz'))).answered)?.status, 200)
  gone.socket.destroy()
  await eventually(() => assert.equal(front.inFlight(), 2))
  for (const work of waiting) work()
  assert.equal(JSON.parse((await read.answered)?.body ?? '').ip, GREEDY)
  assert.deepEqual(JSON.parse((await write.answered)?.body ?? ''), { body: { a: 5 } })
})

test('a request of an IP address with too many waiting requests gets 429', async (t) => {
  const { ask, fill } = await startSlowFront(t)
  fill()
  for (const request of [WHO, MAYBE]) {
    const response = await (await ask(GREEDY, request)).answered
    assert.equal(response?.status, 429)
    assert.match(response?.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
  }
})

test('if several slow reads of one IP address finish together, their answers wait in that address’s queue', async (t) => {
  const { ask, waiting, finishSlow } = await startSlowFront(t)
  const reads = [1, 2, 3].map(() => ask(GREEDY, WHO.replace('/who', '/slow')))
  for (const read of reads) await read
  await eventually(() => assert.equal(waiting.length, reads.length))
  for (const work of waiting.splice(0)) work()
  finishSlow()
  await eventually(() => assert.equal(waiting.length, reads.length))
  for (const work of waiting.splice(0)) work()
  for (const read of reads) assert.equal((await (await read).answered)?.status, 200)
})

test('all addresses of one IPv6 /64 share one queue for waiting HTTP requests', async (t) => {
  let nowMs = 1_000
  const slices: (() => void)[] = []
  const turns = makeFairTurns({ nowMs: () => nowMs, soon: (slice) => void slices.push(slice) })
  const busy = route({
    ...{ method: 'GET', path: '/busy', auth: 'public', cost: 'read', summary: 'Takes a turn' },
    responses: {},
    handle() {
      nowMs += SLICE_MS
      return { status: 200, raw: 'done' }
    },
  })
  const services = { readiness: () => ({}), limit: () => ({ allowed: true, headers: {} }) }
  const { front } = await startTestFront(
    t,
    { trustedProxies: ['127.0.0.1'] },
    { services, turns, routes: [busy] },
  )
  const ask = async (ip: string) => {
    const socket = await openRaw(front.port)
    t.after(() => socket.destroy())
    const answered = readResponses(socket, 1).then(([response]) => response?.status)
    socket.write(`GET /busy HTTP/1.1\r\nhost: a\r\nx-forwarded-for: ${ip}\r\n\r\n`)
    return { answered }
  }
  assert.equal(await (await ask('2001:db8::1')).answered, 200)
  const waiting = [2, 3, 4].map((host) => ask(`2001:db8::${host}`))
  await eventually(() => assert.equal(turns.waiting(), waiting.length))
  assert.equal(await (await ask('2001:db8:0:1::1')).answered, 200, 'another /64 does not wait')
  while (slices.length > 0) slices.shift()?.()
  for (const one of waiting) assert.equal(await (await one).answered, 200)
})
