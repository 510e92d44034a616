import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { MessageChannel } from 'node:worker_threads'
import { loadSettings } from '#config/settings.ts'
import { channelOptions, type ThreadData } from '#config/thread-data.ts'
import { isRejection } from '#domain/rejection.ts'
import { readRows } from '#log/packed-event.ts'
import { openDiskRoom } from '#log/partition/disk-room.ts'
import type { MarketFollowerProtocol } from '#protocol/market-followers.ts'
import { MARKET_FORMS } from '#protocol/market-forms.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { Channel } from '#runtime/channel.ts'
import { eventLoop } from '#runtime/loop.ts'
import { realWorld, type World } from '#services/kit/world.ts'
import { openMarketLog } from '#services/market/thread/market-log.ts'
import { marketThread } from '#services/market/thread.ts'
import { eventually } from '../../support/eventually.ts'
import { buy } from '../../support/orders.ts'
import { simulatedClock } from '../../support/simulated-clock.ts'
import { aMarket, START_SEC, signed } from './market-fixture.ts'

/** Returns a world whose clock and timers the test controls. */
function simulatedWorld(startMs: number) {
  const clock = simulatedClock(startMs)
  const world: World = {
    ...realWorld,
    clock,
    monotonicMs: clock.nowMs,
    timers: {
      after: clock.after,
      every(periodMs, act) {
        let cancel = () => {}
        const again = () => {
          cancel = clock.after(periodMs, again)
          act()
        }
        cancel = clock.after(periodMs, again)
        return () => cancel()
      },
      // The ports of the test are real, so messages must not wait for the simulated clock.
      soon: realWorld.timers.soon,
    },
  }
  return { clock, world }
}

/**
 * Starts a market thread with one market, and links a front to the thread. The front collects the market's
 * `OrderClosed` events in `closed`.
 */
async function linked(t: TestContext) {
  const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-world-'))
  const settings = loadSettings({ SIBYL_DATA_DIR: dataDir, SIBYL_LOG_LEVEL: 'silent' })
  const { clock, world } = simulatedWorld(START_SEC * 1_000)
  const data = { name: 'market-0', index: 0, settings, isTerminal: false } as ThreadData
  const thread = marketThread(data, { ...world, openLog: openMarketLog, openDiskRoom })
  await thread.start(undefined as never)
  const { port1, port2 } = new MessageChannel()
  const closed: object[] = []
  const front = new Channel<MarketThreadProtocol>(
    port1,
    {
      ...{ ...channelOptions(settings), forms: MARKET_FORMS },
      loop: { ...eventLoop, monotonicMs: clock.nowMs },
    },
    {
      received(type, message) {
        if (type !== 'MarketEvents') return
        const { rows } = message as MarketFollowerProtocol['MarketEvents']['takes']
        for (const event of readRows(rows)) if (event.type === 'OrderClosed') closed.push(event)
      },
    },
  )
  t.after(async () => {
    front.close()
    await thread.stop()
    rmSync(dataDir, { recursive: true, force: true })
  })
  thread.connect('front-0', port2)
  const market = aMarket()
  await front.ask('OpenMarket', { market })
  return { clock, front, market, closed }
}

test('a market thread takes the time of orders and expirations from its injected clock', async (t) => {
  const { clock, front, closed } = await linked(t)
  const order = signed(
    buy('YES')
      .at(0.5)
      .size(2)
      .by('ann')
      .until(START_SEC + 60),
  )
  const placed = await front.ask('PlaceOrder', { order })
  assert('timestamp' in placed && placed.timestamp === START_SEC, JSON.stringify(placed))

  clock.advance(59_000)
  await front.ask('Markets', {})
  assert.deepEqual(closed, [], 'its minute has not passed')

  clock.advance(1_500)
  await eventually(() => assert.equal(closed.length, 1))
  const [ended] = closed as { reason: string; atMs: number }[]
  assert.equal(ended?.reason, 'expired')
  assert.equal(Math.floor((ended?.atMs ?? 0) / 1_000), START_SEC + 60)
})

test('an order that arrives after its funds reservation ended is refused, unless it was accepted before', async (t) => {
  const { clock, front, market } = await linked(t)
  const named = (name: string) => signed(buy('YES').at(0.5).size(2).by('ann').named(name))
  /**
   * Sends an order whose reservation of funds lasts one second. The clock advances by `waitMs` before the order
   * arrives. With `inStep`, sends a `PlaceOrders` request instead of a `PlaceOrder` request.
   */
  const arrive = (name: string, waitMs: number, inStep = false) => {
    const placed = { order: named(name), reservedMs: 1_000 }
    const answer = inStep
      ? front.ask('PlaceOrders', { marketId: market.id, orders: [placed] })
      : front.ask('PlaceOrder', placed)
    front.flush()
    clock.advance(waitMs)
    return answer
  }
  const first = await arrive('a', 1_000)
  assert.equal('status' in first && first.status, 'accepted')
  const late = await arrive('b', 1_001)
  assert.equal('rejected' in late && late.rejected, 'OVERLOADED')
  const step = await arrive('b', 1_001, true)
  assert('answers' in step && step.answers.every((each) => isRejection(each)), JSON.stringify(step))
  assert.deepEqual(await arrive('a', 1_001), { ...first, duplicate: true })
  assert.equal('status' in (await arrive('b', 0)), true)
})
