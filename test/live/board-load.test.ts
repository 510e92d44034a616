/**
 * A front that stalls at random, behind real channels: the market end says what real markets do, and the
 * test carries its batches over when it likes. Whatever is lost, the market end never queues more than it
 * may, the board ends up as the markets are, nothing is missing without being told, and an answer never
 * comes before what it follows from.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads'
import { viewOf } from '#actors/market/market.ts'
import type { MarketFollowerProtocol, MarketThreadProtocol } from '#actors/market-thread.ts'
import type { MarketId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { BUY, OUTCOMES, SELL, type Side } from '#domain/order.ts'
import { isRejection } from '#domain/rejection.ts'
import { makeBoardLoad } from '#live/board-load.ts'
import { makeBoard } from '#live/market-board.ts'
import { makeGateway } from '#live/market-gateway.ts'
import { Channel } from '#runtime/channel.ts'
import { systemClock } from '#runtime/clock.ts'
import { makeRef } from '#runtime/ref.ts'
import { given } from '../actors/market-fixture.ts'
import { randomFlow } from '../actors/random-flow.ts'
import { eventually } from '../support/eventually.ts'
import { hashNamed } from '../support/orders.ts'
import { type Random, randomFrom } from '../support/random.ts'
import { seedsOf } from '../support/sample.ts'

const MARKETS = 5
const PAGE = 2
const UNTAKEN_MAX = 8_192
const EVENT_BYTES = 400
const OPTIONS = { inFlightMax: 1_000, batchMax: 4, deadlineMs: 600_000, untakenMax: UNTAKEN_MAX }

const idOf = (index: number) => `0x${(index + 1).toString(16).padStart(64, '0')}` as MarketId

function startLink(random: Random) {
  const markets = Array.from({ length: MARKETS }, (_, index) =>
    given({ market: { id: idOf(index) } }),
  )
  for (const { ask, state } of markets) ask('OpenMarket', { market: state.market })
  const flows = markets.map((market) => randomFlow(market, random))
  const told = markets.map(() => 0)
  const gone = new Set<MarketId>()
  const figures = { dropped: 0, lost: 0, untaken: 0, resets: 0 }

  const [down, up] = [new MessageChannel(), new MessageChannel()]
  const far = new Channel<MarketFollowerProtocol>(down.port1, OPTIONS, {
    heard(type, message, replyTo) {
      if (type === 'Markets') {
        const { after } = message as { after?: MarketId }
        const there = markets.filter(({ marketId }) => !gone.has(marketId))
        const from = after === undefined ? 0 : there.findIndex((one) => one.marketId === after) + 1
        const views = there.slice(from, from + PAGE).map(({ state }) => viewOf(state))
        far.reply(replyTo, { views, more: from + PAGE < there.length, away: false })
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

  /** Something happens in a market, and is told. */
  function step(index: number): void {
    const { marketId, events } = markets[index]!
    if (gone.has(marketId)) return
    for (let steps = random.int(1, 3); steps > 0; steps--) flows[index]!.step()
    tell(index)
    assert(events.length > 0)
  }

  function tell(index: number): void {
    const { events } = markets[index]!
    const news = events.slice(told[index])
    told[index] = events.length
    // The form of the log is not what is tested here, so the events travel as they are.
    const rows = news as unknown as Uint8Array[]
    if (news.length > 0) far.tell('MarketEvents', { rows }, EVENT_BYTES * news.length)
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
  const thread = makeRef<MarketThreadProtocol>()
  const load = makeBoardLoad(board, thread, () => true)
  thread.replace(
    new Channel<MarketThreadProtocol>(up.port2, OPTIONS, {
      heard(type, message) {
        if (type === 'MarketsGone') load.forget((message as { marketIds: MarketId[] }).marketIds)
        else load.follow((message as { rows: unknown }).rows as MarketEvent[])
      },
      lost() {
        figures.lost++
        load.lost()
      },
    }),
  )
  load.begin()
  const gateway = makeGateway([thread], () => 0, systemClock, {
    seqOf: (marketId) => board.markets.get(marketId)?.seq,
    heardAll: () => load.reloaded(),
  })

  /** Carries over so many batches that were sent to the front; the front's own always go. */
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
    // While the market end takes no more, the front says so itself.
    if (isRejection(answer)) return
    const { handledSeq, seq } = answer as unknown as { handledSeq: number; seq?: number }
    assert(seq !== undefined && seq >= handledSeq, `answered at ${handledSeq}, heard ${seq}`)
    assert((board.markets.get(marketId)?.seq ?? handledSeq) >= handledSeq)
  }

  /** A market is resolved, and its thread lets go of it. */
  function letGo(index: number): void {
    const { marketId, ask: command } = markets[index]!
    command('CloseMarket', { marketId, reason: 'resolved' })
    tell(index)
    gone.add(marketId)
    far.tell('MarketsGone', { marketIds: [marketId] })
  }

  return {
    ...{ figures, board, load, far, markets, gone, step, carry, ask, letGo },
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

for (const seed of seedsOf(1, 2, 3, 4)) {
  test(`a front that stalls at random loads what it lost, seed ${seed}`, async (t) => {
    const random = randomFrom(seed)
    const link = startLink(random)
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
      // Most of the time it keeps up; now and then it takes nothing for a long while.
      const stalls = turn % 100 > 60
      for (let count = random.int(0, 4); count > 0; count--) link.step(random.int(0, MARKETS - 1))
      if (random.chance(0.3)) asked.push(link.ask(random.int(0, MARKETS - 2)))
      if (turn === 470) link.letGo(MARKETS - 1)
      await link.carry(stalls ? 0 : random.int(0, 12))
    }
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
    assert(figures.lost > 1 && figures.dropped > figures.lost && figures.resets > 0)
    // What it is told at most, and the answers to what it has asked.
    assert(figures.untaken < 2 * UNTAKEN_MAX, `${figures.untaken} bytes were queued`)
    assert(far.isOpen)
    link.close()
  })
}
