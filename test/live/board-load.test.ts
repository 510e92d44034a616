/**
 * Tests a front that follows markets through real channels and stalls at random. A simulated market thread sends the
 * events of real markets, and the test decides when batches are delivered. The sending channel must limit its queue and
 * report every loss. The board must end in the state of the markets, and an answer must never arrive before its events.
 * All this must also hold while partitions become idle and active.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads'
import type { MarketId } from '#domain/ids.ts'
import { BUY, OUTCOMES, SELL, type Side } from '#domain/order.ts'
import { isRejection } from '#domain/rejection.ts'
import { makeBoardLoad } from '#live/board-load.ts'
import { makeBoard } from '#live/market-board.ts'
import { makeGateway } from '#live/market-gateway.ts'
import { readRows } from '#log/packed-event.ts'
import type { DozeProtocol, MarketFollowerProtocol } from '#protocol/market-followers.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { Channel } from '#runtime/channel.ts'
import { systemClock } from '#runtime/clock.ts'
import { makeRef } from '#runtime/ref.ts'
import { MarketReaders } from '#services/market/host/market-readers.ts'
import { viewOf } from '#services/market/market.ts'
import { given } from '../services/market/market-fixture.ts'
import { randomFlow } from '../services/market/random-flow.ts'
import { eventually } from '../support/eventually.ts'
import { hashNamed } from '../support/orders.ts'
import { type Random, randomFrom } from '../support/random.ts'
import { seedsOf } from '../support/sample.ts'

const MARKETS = 5
const PAGE = 2
const UNTAKEN_MAX = 32_768
const PARTITIONS = 2
const OPTIONS = { inFlightMax: 1_000, batchMax: 4, deadlineMs: 600_000, untakenMax: UNTAKEN_MAX }

const partitionOf = (marketId: MarketId) => Number(marketId) % PARTITIONS
const idOf = (index: number) => `0x${(index + 1).toString(16).padStart(64, '0')}` as MarketId

type Told<K extends keyof MarketFollowerProtocol> = MarketFollowerProtocol[K]['takes']

function startLink(random: Random, isOlder = false) {
  const markets = Array.from({ length: MARKETS }, (_, index) =>
    given({ market: { id: idOf(index) } }),
  )
  for (const { ask, state } of markets) ask('OpenMarket', { market: state.market })
  const flows = markets.map((market) => randomFlow(market, random))
  const told = markets.map(() => 0)
  const gone = new Set<MarketId>()
  const losses = { dropped: 0, lost: 0, untaken: 0, resets: 0 }
  const figures = { ...losses, events: 0, facts: 0, wakes: 0, told: [] as string[] }

  const [down, up] = [new MessageChannel(), new MessageChannel()]
  const far = new Channel<MarketFollowerProtocol>(down.port1, OPTIONS, {
    received(type, message, replyTo) {
      if (type === 'Markets') {
        const { after, partitions } = message as MarketThreadProtocol['Markets']['takes']
        const there = markets.filter(
          ({ marketId }) =>
            !gone.has(marketId) && partitions?.includes(partitionOf(marketId)) !== false,
        )
        const from = after === undefined ? 0 : there.findIndex((one) => one.marketId === after) + 1
        const views = there.slice(from, from + PAGE).map(({ state }) => viewOf(state))
        far.reply(replyTo, {
          views,
          more: from + PAGE < there.length,
          away: false,
          ...(isOlder ? {} : { dozes: true }),
        })
        return
      }
      if (type === 'Doze' || type === 'Wake') {
        figures.told.push(type)
        const dozed = message as DozeProtocol['Doze']['takes']
        far.reply(replyTo, readers.handlersOf(far)[type](dozed))
        return
      }
      const index = markets.findIndex(
        ({ marketId }) => marketId === (message as { marketId: MarketId }).marketId,
      )
      step(index)
      far.reply(replyTo, { handledSeq: markets[index]!.state.seq })
    },
    dropped: () => figures.dropped++,
  })
  const partitions = Array.from({ length: PARTITIONS }, (_, partition) => partition)
  const readers = new MarketReaders<typeof far>(partitions, partitionOf)
  readers.add(far)

  /** Changes a market and sends the event. */
  function step(index: number): void {
    const { marketId, events } = markets[index]!
    if (gone.has(marketId)) return
    for (let steps = random.int(1, 3); steps > 0; steps--) flows[index]!.step()
    tell(index)
    assert(events.length > 0)
  }

  function tell(index: number): void {
    const { events, marketId } = markets[index]!
    const said = events.slice(told[index])
    told[index] = events.length
    if (said.length === 0) return
    const rows = [Buffer.from(JSON.stringify(said))]
    readers.committed({ appended: [{ partition: partitionOf(marketId), rows }], said })
  }

  const seqs = new Map<MarketId, number>()
  const board = makeBoard(
    { isWhole: () => load.isKnown(), isCurrent: () => load.isLoaded() },
    {
      followed({ market }, { seq }) {
        assert.equal(seq, (seqs.get(market.id) ?? 0) + 1, 'a gap that was not told')
        seqs.set(market.id, seq)
      },
      loaded({ market, seq }, missed) {
        if (!missed) assert.equal(seq, seqs.get(market.id), 'a gap that was not told')
        else figures.resets++
        seqs.set(market.id, seq)
      },
      forgotten: () => {},
    },
  )
  const thread = makeRef<MarketThreadProtocol & DozeProtocol>()
  const load = makeBoardLoad(board, thread, () => true)
  const handlers: Record<string, (message: never) => void> = {
    MarketsGone: ({ marketIds }: Told<'MarketsGone'>) => load.forget(marketIds),
    MarketEvents({ rows }: Told<'MarketEvents'>) {
      figures.events++
      load.follow(readRows(rows))
    },
    MarketFacts({ events }: Told<'MarketFacts'>) {
      figures.facts++
      load.followFacts(events)
    },
  }
  thread.replace(
    new Channel<MarketThreadProtocol & DozeProtocol>(up.port2, OPTIONS, {
      received: (type, message) => handlers[type]!(message as never),
      lost() {
        figures.lost++
        load.lost()
      },
    }),
  )
  load.begin()
  const gateway = makeGateway([thread], () => 0, systemClock, {
    seqOf: (marketId) => board.markets.get(marketId)?.seq,
    caughtUp: (marketId) => load.wake(partitionOf(marketId)) ?? load.reloaded(),
  })

  /** Delivers this many batches from the market thread to the front. Always delivers all messages from the front. */
  async function carry(batches: number): Promise<number> {
    let carried = 0
    for (const [from, to, most] of [
      [up.port1, down.port2, Number.POSITIVE_INFINITY],
      [down.port2, up.port1, batches],
    ] as const) {
      for (let count = 0; count < most; count++) {
        const batch = receiveMessageOnPort(from)
        if (batch === undefined) break
        to.postMessage(batch.message)
        carried++
      }
    }
    figures.untaken = Math.max(figures.untaken, far.untaken)
    await new Promise(setImmediate)
    return carried
  }

  async function ask(index: number): Promise<void> {
    const marketId = idOf(index)
    const order = { marketId, orderHash: hashNamed('a'), side: BUY as Side }
    const answer = await gateway.cancel(order, { deadlineAtMs: systemClock.nowMs() + 600_000 })
    // If the channel accepts no more requests, the front itself rejects them.
    if (isRejection(answer)) return
    const { handledSeq, seq } = answer as unknown as { handledSeq: number; seq?: number }
    assert(seq !== undefined && seq >= handledSeq, `answered at ${handledSeq}, received ${seq}`)
    assert((board.markets.get(marketId)?.seq ?? handledSeq) >= handledSeq)
  }

  /**
   * Activates an idle partition, as a request of a client does. Once it is active, the board must have everything that
   * had happened before the activation began.
   */
  async function wake(partition: number): Promise<void> {
    const dozing = load.dozing()
    const seqs = new Map(markets.map(({ marketId, state }) => [marketId, state.seq]))
    const waking = load.wake(partition)
    if (waking === undefined || load.dozing() === dozing) return
    figures.wakes++
    await waking
    for (const [marketId, { seq }] of board.markets) {
      if (partitionOf(marketId) === partition) assert(seq >= seqs.get(marketId)!, 'it is old')
    }
  }

  /** Resolves a market, which its thread then unloads. */
  function letGo(index: number): void {
    const { marketId, ask: command } = markets[index]!
    command('CloseMarket', { marketId, reason: 'resolved' })
    tell(index)
    gone.add(marketId)
    far.tell('MarketsGone', { marketIds: [marketId] })
  }

  return {
    ...{ figures, board, load, far, markets, gone, step, carry, ask, wake, letGo },
    close() {
      thread.close()
      far.close()
      for (const { port1, port2 } of [down, up]) {
        port1.close()
        port2.close()
      }
    },
  }
}

for (const [seed, dozes] of seedsOf(1, 2, 3, 4).flatMap((seed) => [
  [seed, false] as const,
  [seed, true] as const,
])) {
  const what = dozes ? 'and pauses the events of partitions ' : ''
  test(`a front that stalls ${what}at random recovers every lost event, seed ${seed}`, async (t) => {
    const random = randomFrom(seed)
    const link = startLink(random)
    t.after(link.close)
    const { board, figures, far } = link
    const asked: Promise<void>[] = []
    const known = link.load.untilKnown()
    assert(known !== undefined)
    await eventually(async () => {
      await link.carry(100)
      assert(link.load.isLoaded())
    })
    await known
    assert.equal(link.load.untilKnown(), undefined)
    for (let turn = 0; turn < 600; turn++) {
      // The front usually keeps up, and sometimes receives nothing for a long while.
      const stalls = turn % 100 > 60
      for (let count = random.int(0, 4); count > 0; count--) link.step(random.int(0, MARKETS - 1))
      if (random.chance(dozes ? 0.05 : 0.3)) asked.push(link.ask(random.int(0, MARKETS - 2)))
      if (dozes && random.chance(0.1)) link.load.doze([random.int(0, PARTITIONS - 1)])
      if (dozes && random.chance(0.1)) asked.push(link.wake(random.int(0, PARTITIONS - 1)))
      if (turn === 470) link.letGo(MARKETS - 1)
      await link.carry(stalls ? 0 : random.int(0, 12))
    }
    for (let partition = 0; partition < PARTITIONS; partition++) asked.push(link.wake(partition))
    await eventually(async () => {
      assert.equal(await link.carry(100), 0)
      assert(link.load.isLoaded())
    })
    await Promise.all(asked)
    for (const { state, marketId } of link.markets) {
      const shown = board.markets.get(marketId)
      assert.equal(shown === undefined, link.gone.has(marketId), marketId)
      if (shown === undefined) continue
      const view = viewOf(state)
      assert.equal(shown.seq, view.seq)
      for (const outcome of OUTCOMES) {
        assert.deepEqual(shown.books[outcome].levels(BUY), view.bids[outcome])
        assert.deepEqual(shown.books[outcome].levels(SELL), view.asks[outcome])
      }
    }
    t.diagnostic(JSON.stringify(figures))
    assert.equal(figures.wakes > 5, dozes)
    assert(figures.lost > 1 && figures.dropped > figures.lost && figures.resets > 0)
    // When `UNTAKEN_MAX` bytes are unread, the channel drops events, but it still queues answers to requests. So the
    // queue may exceed this maximum a little.
    assert(figures.untaken < 2 * UNTAKEN_MAX, `${figures.untaken} bytes were queued`)
    assert(far.isOpen)
  })
}

test('for a paused partition, a front receives only market openings and closings until a market is needed', async (t) => {
  const link = startLink(randomFrom(1))
  t.after(link.close)
  const { figures, board, load, markets } = link
  const busy = idOf(0)
  const partition = partitionOf(busy)
  const until = (holds: () => boolean) =>
    eventually(async () => {
      await link.carry(100)
      assert(holds())
    })
  const heardOf = (index: number) =>
    until(() => board.markets.get(idOf(index))?.seq === seqOf(index))
  const seqOf = (index: number) => markets[index]!.state.seq
  await until(load.isLoaded)
  for (const index of [0, 1]) {
    link.step(index)
    await heardOf(index)
  }

  load.doze([partition])
  await until(() => figures.told.length === 1)
  const before = seqOf(0)
  const received = figures.events
  for (let turn = 0; turn < 50; turn++) link.step(0)
  // The front still follows the other partition, and receives its later events.
  const quiet = seqOf(1)
  while (seqOf(1) === quiet) link.step(1)
  await heardOf(1)
  assert.equal(figures.events, received + 1)
  assert(seqOf(0) > before)
  assert.equal(board.markets.get(busy)!.seq, before)
  assert.equal(load.dozing(), 1)

  // Events that arrive while the partition becomes active are not lost.
  const waking = link.wake(partition)
  for (let turn = 0; turn < 50; turn++) {
    link.step(0)
    await link.carry(turn % 3)
  }
  await heardOf(0)
  await waking
  assert.equal(load.wake(partition), undefined)

  // A market that closes while its partition is idle is reported as closed.
  load.doze([partition])
  await until(() => figures.told.length === 3)
  for (let turn = 0; turn < 5; turn++) link.step(0)
  link.letGo(0)
  await until(() => board.isGone(busy))
  assert.deepEqual(figures.told, ['Doze', 'Wake', 'Doze'])
  assert.equal(figures.facts, 1)
})

test('a front does not ask a market thread of an older version to pause its events', async (t) => {
  const link = startLink(randomFrom(1), true)
  t.after(link.close)
  const { figures, board, load, markets } = link
  const until = (holds: () => boolean) =>
    eventually(async () => {
      await link.carry(100)
      assert(holds())
    })
  await until(load.isLoaded)
  load.doze([0, 1])
  for (let turn = 0; turn < 10; turn++) link.step(0)
  await until(() => board.markets.get(idOf(0))?.seq === markets[0]!.state.seq)
  const waking = link.wake(partitionOf(idOf(0)))
  await until(() => load.wake(partitionOf(idOf(0))) === undefined)
  await waking
  assert.deepEqual(figures.told, [])
})
