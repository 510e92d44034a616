import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { MessagePort } from 'node:worker_threads'
import { Channel, isUnanswered } from '#runtime/channel.ts'
import { realWorld } from '#services/kit/world.ts'
import { type Bridge, openBridge } from '#services/node/bridge.ts'
import { type NodeLine, openNodeLine, parseNatsUrl } from '#services/node/node-line.ts'
import { signLine } from '#services/node/signed-line.ts'
import { eventually } from '../../support/eventually.ts'
import { natsMissing, startNats } from '../../support/nats.ts'

type EchoProtocol = {
  Echo: { takes: { value: unknown }; answers: { value: unknown } }
  Hold: { takes: object; answers: undefined }
}
type SentProtocol = { Told: { takes: { number: number; bytes?: Uint8Array }; answers: undefined } }

const OPTIONS = { inFlightMax: 1_000, batchMax: 128, deadlineMs: 60_000 }
const SILENT = { info() {}, warn() {} }

type Serving = Channel<SentProtocol> & { readonly from?: string }

type NodeOptions = {
  readonly name: string
  readonly offers: string[]
  /** The node's threads do not end before this promise resolves. */
  readonly gone?: Promise<void>
  /** The node's threads do not start before this promise resolves. */
  readonly copied?: Promise<void>
  /** Signs its messages with this key. */
  readonly key?: string
}

/** Makes a node whose threads are channels in this process. */
async function openNode(
  t: TestContext,
  url: string,
  { name, offers, gone, copied, key }: NodeOptions,
) {
  let bridge: Bridge | undefined
  /** Number of data frames that this node will drop instead of sending them. */
  let swallow = 0
  const unsigned = await openNodeLine({
    ...{ url, credsFile: '', name },
    lost: (why) => bridge?.lost(why),
    back() {},
  })
  let refused = 0
  const plain = key === undefined ? unsigned : signLine(unsigned, key, () => refused++)
  const line: NodeLine = {
    ...plain,
    get isConnected() {
      return plain.isConnected
    },
    publish(subject, bytes) {
      if (subject.includes('.data.') && swallow > 0) swallow--
      else plain.publish(subject, bytes)
    },
  }
  /**
   * `received` has the messages to this node's thread for the slot `store`, and `served` has the links of that thread.
   */
  const received: unknown[] = []
  const served: Serving[] = []
  const running = new Map<string, PromiseWithResolvers<string>>()
  /** The front's end. */
  const told: number[] = []
  const said: object[] = []
  const unfit: string[] = []
  const taken: string[] = []
  let lost = 0
  let front: Channel<EchoProtocol> | undefined
  const connect = async (thread: string, _peer: string, port: MessagePort): Promise<boolean> => {
    if (thread === 'front-0') {
      front = new Channel<EchoProtocol>(port, OPTIONS, {
        received: (_type, message) => void told.push((message as { number: number }).number),
        lost: () => lost++,
      })
      return true
    }
    if (!running.has(thread)) return false
    const channel: Channel<SentProtocol> = new Channel<SentProtocol>(
      port,
      { ...OPTIONS, untakenMax: 4 * 1024 * 1024 },
      {
        received(type, message, replyTo) {
          received.push(message)
          if (type === 'Echo') channel.reply(replyTo, message)
        },
      },
    )
    served.push(channel)
    return true
  }
  bridge = openBridge(
    {
      ...{ cluster: 'test', node: name, shape: 'one', slots: ['store'], offers, silenceMs: 1_000 },
      ...{ moves: [], moveAfterMs: 0 },
      threads:
        offers.length > 0
          ? [{ name: 'store', links: [] }]
          : [{ name: 'front-0', links: ['store'] }],
    },
    {
      ...{ line, world: realWorld, log: SILENT, connect },
      broadcast: (message) => void said.push(message),
      unfit: (why) => void unfit.push(why),
      taken: (slot, epoch) => void taken.push(`${slot} ${epoch}`),
      async begin(slot, isWanted) {
        await copied
        if (!isWanted()) throw new Error('it is not wanted any more')
        if (running.has(slot)) throw new Error('it runs already')
        running.set(slot, Promise.withResolvers())
      },
      ended: (slot) => running.get(slot)!.promise,
      handOver: async () => undefined,
      async end(slot) {
        await gone
        for (const channel of served.splice(0)) channel.close()
        running.get(slot)?.resolve('it was ended')
        running.delete(slot)
      },
    },
  )
  const opened = bridge
  t.after(async () => {
    opened.stop()
    front?.close()
    for (const channel of served) channel.close()
    await plain.close()
  })
  return {
    bridge: opened,
    received,
    served,
    running,
    told,
    said,
    unfit,
    taken,
    lost: () => lost,
    refused: () => refused,
    front: () => {
      assert(front?.isOpen, 'the front is linked')
      return front
    },
    swallow: (frames: number) => {
      swallow = frames
    },
    /** Closes the connection like a kill: nothing more is sent. */
    async vanish() {
      await plain.close()
    },
    crash() {
      for (const channel of served.splice(0)) channel.close()
      const ended = running.get('store')
      running.delete('store')
      ended?.resolve('a bug')
    },
  }
}

async function pair(t: TestContext, flags: readonly string[] = []) {
  const nats = await startNats(t, flags)
  const back = await openNode(t, nats.url, { name: 'back', offers: ['store'] })
  const front = await openNode(t, nats.url, { name: 'front', offers: [] })
  await eventually(() => front.front())
  return { nats, back, front }
}

/**
 * Checks that the front has a new, working link. A busy machine may replace this link as well, so the check repeats
 * until it succeeds.
 */
async function again(
  node: Awaited<ReturnType<typeof openNode>>,
  before: object,
  value: unknown,
): Promise<void> {
  await eventually(async () => {
    assert.notEqual(node.front(), before)
    assert.deepEqual(await node.front().ask('Echo', { value }), { value })
  })
}

test('a NATS URL is parsed into servers, credentials and TLS, and an invalid URL is refused', () => {
  assert.deepEqual(parseNatsUrl('nats://a:4222,b'), {
    ...{ servers: ['a:4222', 'b'], tls: false, user: '', password: '' },
  })
  assert.deepEqual(parseNatsUrl('tls://me:p%40ss@[::1]:4222'), {
    ...{ servers: ['[::1]:4222'], tls: true, user: 'me', password: 'p@ss' },
  })
  for (const wrong of ['', 'http://a', 'nats://', 'nats://a:b:c', 'nats://a/b']) {
    assert.equal(parseNatsUrl(wrong), undefined, wrong)
  }
})

test('a NATS server that requires credentials refuses a node whose URL has wrong credentials', {
  skip: natsMissing,
}, async (t) => {
  const nats = await startNats(t, ['--user', 'sibyl', '--pass', 's3cret'])
  const open = (user: string) =>
    openNodeLine({
      ...{ url: nats.url.replace('//', `//${user}@`), credsFile: '', name: 'a' },
      ...{ lost() {}, back() {} },
    })
  const line = await open('sibyl:s3cret')
  assert(line.isConnected)
  await line.close()
  await assert.rejects(
    open('sibyl:wrong'),
    /^Fault: SIBYL_NATS_URL: 127.0.0.1:\d+ cannot be reached/,
  )
  await nats.kill()
  await assert.rejects(open('sibyl:s3cret'), /SIBYL_NATS_URL/)
})

test('requests and messages between nodes arrive over NATS in order, with any content', {
  skip: natsMissing,
}, async (t) => {
  const { back, front } = await pair(t)
  const values = [1, 'two', 3n, { deep: [undefined, null] }, new Map([['k', new Uint8Array(3)]])]
  const answers = await Promise.all(values.map((value) => front.front().ask('Echo', { value })))
  assert.deepEqual(
    answers.map((answer) => !isUnanswered(answer) && answer.value),
    values,
  )
  // An answer arrives after all earlier messages.
  const [channel] = back.served
  for (let number = 0; number < 5_000; number++) channel!.tell('Told', { number })
  await front.front().ask('Echo', { value: 'now' })
  await eventually(() => assert.equal(front.told.length, 5_000))
  assert.deepEqual(
    front.told,
    Array.from({ length: 5_000 }, (_, number) => number),
  )
})

test('a message that a node sends to all nodes arrives at every other node', {
  skip: natsMissing,
}, async (t) => {
  const { back, front } = await pair(t)
  front.bridge.sayAll({ draws: [['ip a', 5, 10]] })
  await eventually(() => assert.deepEqual(back.said, [{ draws: [['ip a', 5, 10]] }]))
  assert.deepEqual(front.said, [])
})

test('data larger than one NATS message arrives complete at the other node', {
  skip: natsMissing,
}, async (t) => {
  const { front } = await pair(t)
  const value = new Uint8Array(3_500_000).map((_, at) => at % 251)
  const answer = await front.front().ask('Echo', { value })
  assert(!isUnanswered(answer))
  assert.deepEqual(answer.value, value)
})

test('if a frame between two threads is lost, their link closes and a new link opens', {
  skip: natsMissing,
}, async (t) => {
  const { front } = await pair(t)
  const first = front.front()
  front.swallow(1)
  assert.deepEqual(await first.ask('Echo', { value: 'lost' }), { unanswered: 'closed' })
  await again(front, first, 'here')
})

test('a request in progress fails at once when the other thread dies, and a new link opens', {
  skip: natsMissing,
}, async (t) => {
  const { back, front } = await pair(t)
  const first = front.front()
  const waiting = first.ask('Hold', {})
  await eventually(() => assert.equal(back.received.length, 1))
  back.crash()
  assert.deepEqual(await waiting, { unanswered: 'closed' })
  await again(front, first, 1)
})

test('the links of a dead node close, and another node takes over its thread', {
  skip: natsMissing,
}, async (t) => {
  const { nats, back, front } = await pair(t)
  const first = front.front()
  const spare = await openNode(t, nats.url, { name: 'spare', offers: ['store'] })
  await eventually(() => assert.equal(front.bridge.nodes().length, 3))
  for (const { bridge } of [front, spare]) {
    await eventually(() => assert.deepEqual(bridge.owners(), [{ slot: 'store', node: 'back' }]))
  }
  const waiting = first.ask('Hold', {})
  await eventually(() => assert.equal(back.received.length, 1))
  await back.vanish()
  assert.deepEqual(await waiting, { unanswered: 'closed' })
  await again(front, first, 2)
  const names = () => front.bridge.nodes().map(({ node }) => node)
  await eventually(() => assert.deepEqual(names().sort(), ['front', 'spare']))
  assert.deepEqual(front.bridge.owners(), [{ slot: 'store', node: 'spare' }])
  assert.deepEqual([back.taken, spare.taken], [['store 1'], ['store 2']])
})

test('a node that leaves the cluster hands its threads over without waiting for a timeout', {
  skip: natsMissing,
}, async (t) => {
  const { nats, back, front } = await pair(t)
  const spare = await openNode(t, nats.url, { name: 'spare', offers: ['store'] })
  await eventually(() => assert.equal(back.bridge.nodes().length, 3))
  const first = front.front()
  await back.bridge.leave()
  await again(front, first, 3)
  assert(spare.received.length > 0)
})

test('a thread that is handed over starts on the new node before the leaving node stops its own copy', {
  skip: natsMissing,
}, async (t) => {
  const nats = await startNats(t)
  const gate = Promise.withResolvers<void>()
  const back = await openNode(t, nats.url, { name: 'back', offers: ['store'], gone: gate.promise })
  const front = await openNode(t, nats.url, { name: 'front', offers: [] })
  const first = await eventually(() => front.front())
  await openNode(t, nats.url, { name: 'spare', offers: ['store'] })
  await eventually(() => assert.equal(back.bridge.nodes().length, 3))
  let hasLeft = false
  const leaving = back.bridge.leave().then(() => {
    hasLeft = true
  })
  await again(front, first, 4)
  assert.equal(hasLeft, false)
  gate.resolve()
  await leaving
})

test('if a front on another machine stops acknowledging, later messages are dropped and the front is notified', {
  skip: natsMissing,
}, async (t) => {
  const { back, front } = await pair(t)
  const [channel] = back.served
  // This loop blocks the event loop, so the peer cannot acknowledge any message.
  const bytes = new Uint8Array(1_000)
  for (let number = 0; number < 20_000; number++) channel!.tell('Told', { number, bytes }, 1_000)
  await eventually(() => assert.equal(front.lost(), 1))
  assert(front.told.length < 20_000)
  assert.deepEqual(await front.front().ask('Echo', { value: 4 }), { value: 4 })
  channel!.tell('Told', { number: -1 })
  await eventually(() => assert.equal(front.told.at(-1), -1))
})

test('after an outage of NATS, the links between nodes are opened again', {
  skip: natsMissing,
}, async (t) => {
  const { nats, front } = await pair(t)
  const first = front.front()
  await nats.kill()
  await eventually(() => assert(!first.isOpen))
  assert.notEqual(front.bridge.why(), '')
  await nats.start()
  await again(front, first, 5)
  assert.equal(front.bridge.why(), '')
})

test('nodes ignore messages of other programs on their NATS subjects', {
  skip: natsMissing,
}, async (t) => {
  const { nats, back, front } = await pair(t)
  const first = front.front()
  const stranger = await openNodeLine({
    ...{ url: nats.url, credsFile: '', name: 'stranger', lost() {}, back() {} },
  })
  t.after(() => stranger.close())
  const beat = { ...back.bridge.nodes()[0], node: 'other', incarnation: 'other' }
  const garbage: unknown[] = [
    ...[null, 1, 'text', [], {}, { incarnation: 'x' }, { incarnation: 'x', message: null }],
    ...[
      { ...beat, claims: undefined },
      { ...beat, claims: [null] },
      { ...beat, offers: null },
    ],
    ...[Number.MAX_VALUE, -1, '9'].map((epoch) => {
      return { ...beat, claims: [{ slot: 'store', epoch, serving: true }] }
    }),
    { ...beat, claims: [{ slot: 'nobody has it', epoch: 1, serving: true }] },
    {
      link: 1,
      node: 'x',
      incarnation: 'x',
      thread: 'x',
      peer: 'store',
      peerIncarnation: beat.incarnation,
    },
  ]
  for (const message of garbage) {
    for (const subject of ['beat', 'all', 'open.back', 'open.front', 'data.back', 'data.front']) {
      stranger.publish(`test.${subject}`, Buffer.from(JSON.stringify(message)))
    }
  }
  await stranger.request('test.open.back', Buffer.from('null'), 500)
  assert.deepEqual(await first.ask('Echo', { value: 6 }), { value: 6 })
  assert.equal(front.front(), first)
  assert.deepEqual([back.said, front.said], [[], []])
})

test('nodes that sign their messages drop messages of a client without the key', {
  skip: natsMissing,
}, async (t) => {
  const nats = await startNats(t)
  const key = `0x${'5e'.repeat(32)}`
  const back = await openNode(t, nats.url, { name: 'back', offers: ['store'], key })
  const front = await openNode(t, nats.url, { name: 'front', offers: [], key })
  await eventually(() => front.front())
  const first = front.front()
  const large = 'x'.repeat(3_000_000)
  assert.deepEqual(await first.ask('Echo', { value: large }), { value: large })
  const stranger = await openNodeLine({
    ...{ url: nats.url, credsFile: '', name: 'stranger', lost() {}, back() {} },
  })
  t.after(() => stranger.close())
  const wrongKey = signLine(stranger, `0x${'aa'.repeat(32)}`, () => {})
  const rightKey = signLine(stranger, key, () => {})
  const claims = [{ slot: 'store', epoch: 7, serving: true }]
  const forged = { ...back.bridge.nodes()[0]!, node: 'evil', incarnation: 'evil', claims }
  const bytes = Buffer.from(JSON.stringify(forged))
  stranger.publish('test.beat', bytes)
  wrongKey.publish('test.beat', bytes)
  // A signature is valid for one subject. A message that was signed for another subject is refused.
  const captured: Uint8Array[] = []
  const noted = {
    ...stranger,
    publish: (_: string, signed: Uint8Array) => void captured.push(signed),
  }
  signLine(noted, key, () => {}).publish('test.all', bytes)
  stranger.publish('test.beat', captured[0]!)
  await eventually(() => assert.equal(back.refused(), 3))
  assert.deepEqual(
    back.bridge.nodes().map(({ node }) => node),
    ['back', 'front'],
  )
  const asked = {
    link: '0'.repeat(24),
    node: 'evil',
    incarnation: 'evil',
    thread: 'front-0',
    peer: 'store',
  }
  const opening = { ...asked, peerIncarnation: back.bridge.nodes()[0]!.incarnation }
  assert.equal(
    await wrongKey.request('test.open.back', Buffer.from(JSON.stringify(opening)), 300),
    undefined,
  )
  assert.deepEqual(await first.ask('Echo', { value: 6 }), { value: 6 })
  assert.equal(front.front(), first)
  rightKey.publish('test.beat', bytes)
  await eventually(() => assert.equal(back.bridge.nodes().length, 3))
})

test('a node does not start a thread that another node took over while the first node prepared it', {
  skip: natsMissing,
}, async (t) => {
  const nats = await startNats(t)
  const gate = Promise.withResolvers<void>()
  const slow = await openNode(t, nats.url, {
    ...{ name: 'slow', offers: ['store'], copied: gate.promise },
  })
  const claims = () => slow.bridge.nodes()[0]!.claims
  await eventually(() => assert.equal(claims().length, 1))
  const stranger = await openNodeLine({
    ...{ url: nats.url, credsFile: '', name: 'rival', lost() {}, back() {} },
  })
  t.after(() => stranger.close())
  // Publishes a beat of a rival node that claims the slot `store`. The rival took the slot while the slow node counted
  // as dead.
  const rival = { ...slow.bridge.nodes()[0]!, node: 'rival', incarnation: 'rival' }
  const say = (epoch: number, gone = false) => {
    const beat = { ...rival, gone, claims: [{ slot: 'store', epoch, serving: true }] }
    stranger.publish('test.beat', Buffer.from(JSON.stringify(beat)))
  }
  say(5)
  await eventually(() => assert.equal(claims().length, 0))
  gate.resolve()
  await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual([...slow.running.keys()], [])
  say(5, true)
  await eventually(() => assert.equal(claims()[0]?.serving, true))
  assert.deepEqual([...slow.running.keys()], ['store'])
})

test('a node leaves the cluster if another node of the same name has joined', {
  skip: natsMissing,
}, async (t) => {
  const nats = await startNats(t)
  const node = await openNode(t, nats.url, { name: 'back', offers: ['store'] })
  await node.bridge.joined
  const stranger = await openNodeLine({
    ...{ url: nats.url, credsFile: '', name: 'next', lost() {}, back() {} },
  })
  t.after(() => stranger.close())
  const beat = { ...node.bridge.nodes()[0]!, incarnation: 'z', settled: true }
  stranger.publish('test.beat', Buffer.from(JSON.stringify(beat)))
  const why = 'SIBYL_NODE: another node of the cluster is called back'
  await eventually(() => assert.deepEqual(node.unfit, [why]))
})
