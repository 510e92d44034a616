import assert from 'node:assert/strict'
import { buy, hashNamed, sell } from '../../support/orders.ts'
import { signed } from './market-fixture.ts'
import { type Command, inFolder, marketId, open, startHost } from './thread-fixture.ts'

const LAG_MS_MAX = 900_000
const HOURS = 3_600

let placed = 0
function place(n: number): Command {
  const order = signed(buy('YES').at(0.1).named(`late${placed++}`), marketId(n))
  return { type: 'PlaceOrder', message: { order } }
}
const projected = (partition: number, offset: number): Command => ({
  type: 'Projected',
  message: { partition, offset },
})

const BEHIND = { rejected: 'SETTLEMENT_BEHIND' }
const isAccepted = (answer: unknown) =>
  assert.equal((answer as { status?: string }).status, 'accepted', JSON.stringify(answer))

inFolder(
  'while the database is too far behind the log of a partition, the partition refuses orders',
  async (dir) => {
    const host = startHost(dir, {
      lagMsMax: LAG_MS_MAX,
      pins: { [marketId(1)]: 0, [marketId(2)]: 1 },
    })
    await host.run(open(1), open(2))
    await host.run(projected(0, 1), projected(1, 1))
    const first = place(1)
    isAccepted((await host.run(first))[0])
    isAccepted((await host.run(place(2)))[0])
    await host.run(projected(1, 2))
    for (let seconds = 0; seconds <= 900; seconds += 100) {
      host.at(seconds)
      assert.deepEqual(host.watchProjection(), [], `after ${seconds} s`)
    }
    isAccepted((await host.run(place(1)))[0])

    host.at(3 * HOURS)
    const lagMs = 3 * HOURS * 1_000
    assert.deepEqual(host.watchProjection(), [{ partition: 0, behind: true, lagMs }])
    assert.deepEqual(host.watchProjection(), [], 'it is told once')
    assert.deepEqual((await host.run(place(1)))[0], BEHIND)
    assert.equal(((await host.run(first))[0] as { duplicate?: boolean }).duplicate, true)
    const cancel = { marketId: marketId(1), orderHash: hashNamed('late0'), side: 0 } as const
    const [cancelled] = await host.run({ type: 'CancelOrder', message: cancel })
    assert.equal((cancelled as { status: string }).status, 'cancelled')
    isAccepted((await host.run(place(2)))[0])

    await host.run(projected(0, host.log.lastOffset(0)))
    assert.deepEqual(host.watchProjection(), [{ partition: 0, behind: false, lagMs: 0 }])
    isAccepted((await host.run(place(1)))[0])
    await host.stop()
  },
)

inFolder(
  'a database that advances but lags by more than the limit counts as behind',
  async (dir) => {
    const host = startHost(dir, { lagMsMax: LAG_MS_MAX, partitions: 1 })
    await host.run(open(1))
    // Adds one event per minute, while the database always lags by `minutesBehind`. Returns each reported change of
    // `behind`.
    const follow = async (minutesBehind: number, from: number, to: number): Promise<boolean[]> => {
      const news: boolean[] = []
      for (let minute = from; minute < to; minute++) {
        host.at(minute * 60)
        await host.run(open(1_000 + minute))
        await host.run(projected(0, Math.max(0, minute + 1 - minutesBehind)))
        news.push(...host.watchProjection().map(({ behind }) => behind))
      }
      return news
    }
    assert.deepEqual(await follow(12, 0, 60), [])
    assert.deepEqual(await follow(20, 60, 120), [true])
    assert.deepEqual(await follow(2, 120, 180), [false])
    await host.stop()
  },
)

inFolder(
  'after a restart, the market thread still knows how old the events are that the database lacks',
  async (dir) => {
    const before = startHost(dir, { lagMsMax: LAG_MS_MAX, partitions: 1 })
    await before.run(open(1), place(1))
    await before.stop()
    const host = startHost(dir, { lagMsMax: LAG_MS_MAX, partitions: 1 })
    host.at(HOURS)
    assert.deepEqual(host.watchProjection(), [], 'the store has not said anything yet')
    await host.run(projected(0, 1))
    assert.deepEqual(
      host.watchProjection().map(({ behind }) => behind),
      [true],
    )
    await host.stop()
  },
)

inFolder(
  'if the projector never reports its position, the lag is measured from the start of the market thread',
  async (dir) => {
    const host = startHost(dir, { lagMsMax: LAG_MS_MAX, partitions: 1 })
    await host.run(open(1), {
      type: 'PlaceOrder',
      message: { order: signed(sell('YES').at(0.9).named('x'), marketId(1)) },
    })
    assert.deepEqual(host.watchProjection(), [])
    host.at(901)
    assert.deepEqual(
      host.watchProjection().map(({ behind }) => behind),
      [true],
    )
    await host.stop()
  },
)

inFolder('without a maximum lag the database never counts as behind', async (dir) => {
  const host = startHost(dir, { partitions: 1 })
  await host.run(open(1), place(1))
  host.at(1_000 * HOURS)
  assert.deepEqual(host.watchProjection(), [])
  await host.stop()
})
