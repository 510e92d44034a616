/** Tests labels, groups, replacements and `bookByMs` of orders, over REST, the stream and the SDK. */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { privateKeyToAccount } from 'viem/accounts'
import { registerApiKey } from '#client/api-keys.ts'
import { createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { createStream } from '#client/stream.ts'
import { withApiKey } from '#client/tokens.ts'
import { eventually } from '../support/eventually.ts'
import type { Exchange } from '../support/exchange.ts'
import { traderNumbered } from '../support/signed-orders.ts'

const maker = traderNumbered(41)
const taker = traderNumbered(42)
/** Traders with dead-man switches: the switch of `quiet` is not due in the test, that of `silent` is. */
const quiet = traderNumbered(43)
const silent = traderNumbered(44)
const DUE_MS = 3_000

async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise
    return 'accepted'
  } catch (error) {
    assert.ok(error instanceof SibylError, String(error))
    return error.code
  }
}

/**
 * Runs the tests before a restart, and returns the tests to run after it. The returned tests check that the order
 * group's fill limit and the dead-man switches still apply.
 */
export async function tryOrderLife(
  t: TestContext,
  exchange: Exchange,
  marketId: string,
): Promise<(after: TestContext) => Promise<void>> {
  const ann = createClient({ url: exchange.url, chainId: 31_337, signer: maker.key })
  const bob = createClient({ url: exchange.url, chainId: 31_337, signer: taker.key })
  const terms = { marketId, outcome: 'YES', size: '4', ttlSeconds: 3_600 } as const
  const openLabels = async () =>
    (await ann.orders.list({ market: marketId })).map(({ label, group }) => [label, group])

  await t.test(
    'the label and the group of an order are in the answer, the list of orders and the stream',
    async (subtest) => {
      const stream = createStream({ url: exchange.url })
      subtest.after(() => stream.close())
      const received: { label?: string; group?: string; status?: string; reason?: string }[] = []
      const sub = stream.orders(maker.address, (message) => {
        if (message.type === 'order') received.push(message)
      })
      await sub.ready
      const tags = { label: 'quote "1"', group: 'g1' }
      const placed = await ann.orders.place({ ...terms, side: 'sell', price: '0.60', ...tags })
      assert.deepEqual([placed.label, placed.group], [tags.label, tags.group])
      assert.deepEqual(await openLabels(), [[tags.label, tags.group]])
      await eventually(async () => {
        const stored = await ann.orders.get(placed.orderHash)
        assert.deepEqual(
          [stored.status, stored.label, stored.group],
          ['open', tags.label, tags.group],
        )
      })
      const replaces = placed.orderHash
      const next = { ...terms, side: 'sell', price: '0.61', label: 'quote 2', replaces } as const
      await ann.orders.place(next)
      assert.deepEqual(await openLabels(), [['quote 2', undefined]])
      await eventually(() => {
        const [first, ended, second] = received
        assert.deepEqual([first?.label, first?.group], [tags.label, tags.group])
        assert.deepEqual([ended?.status, ended?.reason], ['cancelled', 'replaced'])
        assert.equal(ended?.label, tags.label)
        assert.equal(second?.label, 'quote 2')
      })
      assert.equal(await codeOf(ann.orders.place({ ...next, price: '0.62' })), 'ORDER_CLOSED')
      await ann.orders.place({ ...next, price: '0.62', label: 'third', replaceMode: 'always' })
      for (const { orderHash } of await ann.orders.list({ market: marketId })) {
        await ann.orders.cancel({ orderHash, marketId, side: 'sell' })
      }
    },
  )

  await t.test(
    'an order that arrives after its bookByMs is refused, over REST and over the stream',
    async (subtest) => {
      const late = { ...terms, side: 'buy', price: '0.30', bookByMs: Date.now() - 1_000 } as const
      assert.equal(await codeOf(ann.orders.place(late)), 'TOO_LATE')
      const checked = await ann.orders.validate(await ann.orders.sign(late))
      assert.deepEqual(
        checked.errors.map(({ code }) => code),
        ['TOO_LATE'],
      )
      const stream = createStream({ url: exchange.url })
      subtest.after(() => stream.close())
      assert.equal(await codeOf(stream.place(await ann.orders.sign(late))), 'TOO_LATE')
      const inTime = { ...late, bookByMs: Date.now() + 60_000 }
      const { orderHash } = await ann.orders.place(inTime)
      await ann.orders.cancel({ orderHash, marketId, side: 'buy' })
    },
  )

  await t.test(
    'one batch of replacements moves the bid and the ask of a maker together',
    async () => {
      const quote = { ...terms, postOnly: true } as const
      const bid = await ann.orders.place({ ...quote, side: 'buy', price: '0.48' })
      const ask = await ann.orders.place({ ...quote, side: 'sell', price: '0.50' })
      const results = await ann.orders.placeBatch([
        { ...quote, side: 'buy', price: '0.50', replaces: bid.orderHash, label: 'bid' },
        { ...quote, side: 'sell', price: '0.52', replaces: ask.orderHash, label: 'ask' },
        { ...quote, side: 'sell', price: '0.53', replaces: ask.orderHash, label: 'never' },
      ])
      assert.deepEqual(
        results.map((result) => (result.ok ? result.placed.label : result.error.code)),
        ['bid', 'ask', 'ORDER_CLOSED'],
      )
      assert.deepEqual((await openLabels()).map(([label]) => label).sort(), ['ask', 'bid'])
      await cancelBoth()
    },
  )

  async function cancelBoth(): Promise<void> {
    for (const { orderHash, side } of await ann.orders.list({ market: marketId })) {
      await ann.orders.cancel({ orderHash, marketId, side: side === 0 ? 'buy' : 'sell' })
    }
  }

  await t.test(
    'order options that contradict each other are refused, and the error names the field',
    async () => {
      const order = { ...terms, side: 'buy', price: '0.30' } as const
      const fieldOf = async (more: object) => {
        const error = await ann.orders.place({ ...order, ...more }).then(
          () => undefined,
          (failed: unknown) => failed,
        )
        assert.ok(error instanceof SibylError, JSON.stringify(more))
        return [error.code, error.field]
      }
      const protection = { windowMs: 1_000, fillsMax: 1 }
      assert.deepEqual(await fieldOf({ protection }), ['INVALID_FIELD', 'protection'])
      assert.deepEqual(await fieldOf({ group: 'g', protection: { windowMs: 1_000 } }), [
        'INVALID_FIELD',
        'protection',
      ])
      assert.deepEqual(await fieldOf({ replaceMode: 'always' }), ['INVALID_FIELD', 'replaceMode'])
      assert.deepEqual(await fieldOf({ label: 'x'.repeat(33) }), ['INVALID_FIELD', 'label'])
      assert.deepEqual(await fieldOf({ label: 'tab\t' }), ['INVALID_FIELD', 'label'])
      assert.deepEqual(await fieldOf({ group: 'a b' }), ['INVALID_FIELD', 'group'])
      assert.deepEqual(await openLabels(), [])
    },
  )

  await t.test(
    'an API key can cancel all of its owner’s orders in a group, given the name of the group',
    async () => {
      const key = await registerApiKey({ url: exchange.url }, privateKeyToAccount(maker.key))
      const owner = createClient(withApiKey({ url: exchange.url }, key))
      const order = { ...terms, side: 'buy', price: '0.20' } as const
      await ann.orders.place({ ...order, group: 'g1' })
      await ann.orders.place({ ...order, group: 'g1', price: '0.21' })
      await ann.orders.place({ ...order, group: 'g2' })
      assert.equal((await owner.orders.cancelAll({ group: 'g1' })).count, 2)
      assert.deepEqual(await openLabels(), [[undefined, 'g2']])
      assert.equal((await owner.orders.cancelAll({ group: 'g2', market: marketId })).count, 1)
    },
  )

  await t.test(
    'a client can cancel a group and set a dead-man switch over the stream',
    async (subtest) => {
      const key = await registerApiKey({ url: exchange.url }, privateKeyToAccount(maker.key))
      const owner = createClient(withApiKey({ url: exchange.url, signer: maker.key }, key))
      const stream = owner.stream()
      const stranger = createStream({ url: exchange.url })
      subtest.after(() => {
        stream.close()
        stranger.close()
      })
      const order = { ...terms, side: 'buy', price: '0.22' } as const
      const first = await stream.place(
        await ann.orders.sign({ ...order, group: 'g3', label: 'one' }),
      )
      assert.deepEqual([first.group, first.label], ['g3', 'one'])
      const replaces = first.orderHash
      const moved = await ann.orders.sign({ ...order, price: '0.23', group: 'g3', replaces })
      const { orderHash } = await stream.place(moved)
      assert.equal(
        await codeOf(stream.place(await ann.orders.sign({ ...order, replaces }))),
        'ORDER_CLOSED',
      )
      assert.equal((await stream.cancelAll({ group: 'other' })).count, 0)
      const cancelled = await stream.cancelAll({ group: 'g3', market: marketId })
      assert.deepEqual(cancelled.orderHashes, [orderHash])
      assert.equal((await stream.deadman(60_000)).status, 'on')
      assert.deepEqual(await stream.deadman(0), { status: 'off' })
      assert.equal(await codeOf(stream.deadman(999)), 'INVALID_FIELD')
      assert.equal(await codeOf(stranger.deadman(1_000)), 'UNAUTHORIZED_MISSING_HEADER')
      assert.equal(await codeOf(stranger.cancelAll()), 'UNAUTHORIZED_MISSING_HEADER')
      assert.deepEqual(await openLabels(), [])
    },
  )

  const keys = {
    renewed: await registerApiKey({ url: exchange.url }, privateKeyToAccount(quiet.key)),
    due: await registerApiKey({ url: exchange.url }, privateKeyToAccount(silent.key)),
  }
  await t.test(
    'a dead-man switch is set, renewed and turned off with the API key of its owner',
    async () => {
      const owner = createClient(withApiKey({ url: exchange.url }, keys.renewed))
      const before = Date.now()
      const { status, cancelsAtMs = 0 } = await owner.orders.deadman(60_000)
      assert.equal(status, 'on')
      assert.ok(cancelsAtMs >= before + 60_000 && cancelsAtMs <= Date.now() + 60_000)
      assert.deepEqual(await owner.orders.deadman(0), { status: 'off' })
      assert.deepEqual(await owner.orders.deadman(0), { status: 'off' })
      assert.equal(await codeOf(owner.orders.deadman(999)), 'INVALID_FIELD')
      assert.equal(await codeOf(ann.orders.deadman(1_000)), 'UNAUTHORIZED_MISSING_HEADER')
    },
  )
  for (const [trader, key, afterMs] of [
    [quiet, keys.renewed, 3_600_000],
    [silent, keys.due, DUE_MS],
  ] as const) {
    const client = createClient({ url: exchange.url, chainId: 31_337, signer: trader.key })
    await client.orders.place({ ...terms, side: 'buy', price: '0.10' })
    await createClient(withApiKey({ url: exchange.url }, key)).orders.deadman(afterMs)
  }

  const protection = { windowMs: 60_000, fillsMax: 1 }
  const protectedTerms = { ...terms, side: 'sell', group: 'mm', protection } as const
  await ann.orders.place({ ...protectedTerms, price: '0.70' })
  await ann.orders.place({ ...protectedTerms, price: '0.71' })
  await ann.orders.place({ ...protectedTerms, price: '0.72', group: 'else' })
  await bob.orders.place({ ...terms, side: 'buy', price: '0.70', size: '1' })
  assert.equal((await openLabels()).length, 3)

  return async (after) => {
    await after.test('the fill limit of an order group still applies after a restart', async () => {
      const reader = createClient({ url: exchange.url, chainId: 31_337, signer: maker.key })
      const other = createClient({ url: exchange.url, chainId: 31_337, signer: taker.key })
      await other.orders.place({ ...terms, side: 'buy', price: '0.70', size: '1' })
      const left = await reader.orders.list({ market: marketId })
      assert.deepEqual(
        left.map(({ group }) => group),
        ['else'],
      )
    })
    await after.test(
      'after a restart, a dead-man switch cancels orders only if the switch is due',
      async () => {
        const open = async ({ address }: { address: string }) =>
          (await createClient({ url: exchange.url }).orders.list({ trader: address })).length
        await eventually(async () => assert.equal(await open(silent), 0))
        assert.equal(await open(quiet), 1)
      },
    )
  }
}
