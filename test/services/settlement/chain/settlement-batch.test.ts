import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeAbiParameters, RawContractError, toHex } from 'viem'
import { SETTLEMENT_REASONS } from '#chain/settlement-contract.ts'
import { type Address, type OrderHash, ZERO_ADDRESS } from '#domain/ids.ts'
import { BUY, type PermitSignature, SELL, type VerifiedOrder } from '#domain/order.ts'
import type { TradeToSettle } from '#domain/trade.ts'
import { batchOf } from '#services/settlement/chain/settlement-batch.ts'
import { makeSimulation } from '#services/settlement/chain/simulation.ts'
import { makeSparePermits } from '#services/settlement/chain/spare-permits.ts'

/** Makes a permit whose signature contains the name and the nonce. */
function permitOf(name: string, nonce: number): PermitSignature {
  const s = `0x${Buffer.from(`${name} ${nonce}`).toString('hex').padStart(64, '0')}`
  const terms = { nonce: String(nonce), value: '1', deadline: '1', v: 27, r: s, s }
  return terms as unknown as PermitSignature
}

/**
 * Makes a buy from a name such as `Ann1`, which consists of a trader and a number. `nonce` is the nonce of the buy's
 * permit.
 */
function buy(name: string, nonce?: number): VerifiedOrder {
  const permit = nonce === undefined ? {} : { permit: permitOf(name, nonce) }
  const [orderHash, trader] = [name, name.slice(0, 3)]
  return { side: BUY, orderHash, trader, signature: '', ...permit } as unknown as VerifiedOrder
}

let sells = 0
function trade(bought: VerifiedOrder): TradeToSettle {
  const orderHash = `sell ${++sells}`
  const sell = { side: SELL, orderHash, trader: orderHash, permit: { nonce: '0' } }
  const terms = { seq: sells, fillIndex: 0, price: 1, size: 1 }
  const tradeId = `trade ${sells}`
  return { tradeId, buyer: bought.trader, buy: bought, sell, ...terms } as unknown as TradeToSettle
}

/**
 * Returns the batch as text, such as `Ann1+ Bob1 Ann1`: the buys of its fills, in order. A `+` means that the batch
 * uses the buy's permit before this fill.
 */
function written(buys: readonly VerifiedOrder[], used: readonly string[] = []): string {
  const { orders, fills, permits } = batchOf(buys.map(trade), new Set(used as OrderHash[]))
  const tried = new Map(permits.map(({ fill, permit }) => [fill, permit]))
  assert.deepEqual(
    [...tried.keys()],
    [...tried.keys()].sort((a, b) => a - b),
  )
  return fills
    .map((fill, at) => {
      const { orderHash, permit } = orders[fill.buy]!.order as VerifiedOrder
      if (tried.has(at)) assert.deepEqual(tried.get(at), permit)
      return `${orderHash}${tried.has(at) ? '+' : ''}`
    })
    .join(' ')
}

test('a settlement batch puts an order’s permit before the order’s first fill, and only once', () => {
  const ann = buy('Ann1', 0)
  assert.equal(written([buy('Bob1'), ann, buy('Bob1'), ann]), 'Bob1 Ann1+ Bob1 Ann1')
  assert.equal(written([ann, ann], ['Ann1']), 'Ann1 Ann1')
})

test('a settlement batch sorts one buyer’s fills by permit nonce, and keeps the places of other fills', () => {
  const [first, second] = [buy('Ann1', 9), buy('Ann2', 10)]
  const bob = buy('Bob1', 3)
  assert.equal(
    written([second, bob, first, second, buy('Eve1'), first]),
    'Ann1+ Bob1+ Ann1 Ann2+ Eve1 Ann2',
  )
})

test('in a settlement batch, a buyer’s fills from the existing allowance come before the buyer’s new permit', () => {
  const [old, plain, fresh] = [buy('Ann1', 1), buy('Ann2'), buy('Ann3', 2)]
  assert.equal(written([fresh, old, plain, fresh], ['Ann1']), 'Ann1 Ann2 Ann3+ Ann3')
})

test('settlement sends the permits of both buyers of a mint after the fills that use their old allowances', () => {
  const [ann, bob, plain] = [buy('Ann1', 4), buy('Bob1', 7), buy('Ann2')]
  const mint = { ...trade(ann), sell: bob, kind: 'mint' } as TradeToSettle
  const before = { ...trade(buy('Eve1')), sell: plain, kind: 'mint' } as TradeToSettle
  const { trades, permits } = batchOf([mint, before], new Set())
  assert.deepEqual(
    trades.map(({ tradeId }) => tradeId),
    [before.tradeId, mint.tradeId],
  )
  assert.deepEqual(
    permits.map(({ fill, owner }) => [fill, owner]),
    [
      [1, 'Ann'],
      [1, 'Bob'],
    ],
  )
})

test('a settlement batch without permits keeps the sequence of its trades', () => {
  const [a, b] = [buy('Ann1'), buy('Bob1')]
  assert.equal(written([b, a, b]), 'Bob1 Ann1 Bob1')
})

/**
 * Batches the trades. Each owner has `stored` further permits, from other orders, with nonces from 0. The chain has
 * used the first `used` of them. Returns the nonces of the sent permits, and the trades that fit.
 */
async function withSpare(trades: readonly TradeToSettle[], { stored = 0, used = 0 }) {
  const spare = makeSparePermits({
    stored: async (owners) =>
      owners.flatMap((owner) =>
        Array.from({ length: stored }, (_, nonce) => ({
          owner,
          permit: permitOf(`other ${nonce}`, nonce),
        })).reverse(),
      ),
    nonceOf: async () => BigInt(used),
  })
  const { earlier, fitting } = await spare(trades, new Set())
  const { permits } = batchOf(fitting, new Set(), earlier)
  return { nonces: permits.map(({ permit }) => Number(permit.nonce)), fitting }
}

test('settlement sends a permit together with all unused earlier permits of its owner, each once', async () => {
  const trades = [trade(buy('Ann1', 9)), trade(buy('Ann2', 10))]
  const all = await withSpare(trades, { stored: 9 })
  assert.deepEqual(all.nonces, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
  assert.deepEqual((await withSpare(trades, { stored: 9, used: 7 })).nonces, [7, 8, 9, 10])
  assert.deepEqual((await withSpare(trades, { stored: 9, used: 9 })).nonces, [9, 10])
  const apart = [trade(buy('Ann1', 9)), trade(buy('Ann2', 12))]
  const between = await withSpare(apart, { stored: 12, used: 9 })
  assert.deepEqual(between.nonces, [9, 10, 11, 12])
})

test('a permit is sent with at most 32 earlier permits', async () => {
  const { nonces } = await withSpare([trade(buy('Ann1', 200))], { stored: 200 })
  assert.deepEqual(nonces, [...Array.from({ length: 32 }, (_, nonce) => nonce), 200])
})

test('if an owner has several permits with the same nonce, settlement sends only the first', async () => {
  const stored = [7, ...Array<number>(40).fill(5), 6].map((nonce, at) => ({
    owner: 'Ann' as Address,
    permit: permitOf(`other ${at}`, nonce),
  }))
  const spare = makeSparePermits({ stored: async () => stored, nonceOf: async () => 5n })
  const trades = [trade(buy('Ann1', 8))]
  const { earlier } = await spare(trades, new Set())
  const { permits } = batchOf(trades, new Set(), earlier)
  assert.deepEqual(
    permits.map(({ permit }) => permit),
    [stored[1]!.permit, stored[41]!.permit, stored[0]!.permit, permitOf('Ann1', 8)],
  )
})

test('a trade whose permit no longer fits into the transaction is left for the next transaction', async () => {
  const names = ['Ann1', 'Bob1', 'Cid1', 'Dan1']
  const trades = [...names.map((name) => trade(buy(name, 40))), trade(buy('Eve1'))]
  const { fitting } = await withSpare(trades, { stored: 40 })
  assert.deepEqual(
    fitting.map(({ buyer }) => buyer as string),
    ['Ann', 'Bob', 'Cid', 'Eve'],
  )
})

test('a permit that cannot be encoded is not sent', () => {
  const flaws = [
    { value: String(2n ** 256n) },
    { deadline: '-1' },
    { nonce: 'x' },
    { v: 29 },
    { r: '0x1' },
    { s: `0x${'g'.repeat(64)}` },
  ]
  for (const flaw of flaws) {
    const order = { ...buy('Ann1', 0), permit: { ...permitOf('Ann1', 0), ...flaw } }
    const { permits } = batchOf([trade(order as VerifiedOrder)], new Set())
    assert.deepEqual(permits, [], JSON.stringify(flaw))
  }
})

const MANY = { returned: [] as number[][], isStopped: false }

/** Returns a simulation whose node answers with these verdicts, one list per call. */
function simulationWith({ returned, isStopped }: typeof MANY) {
  const answers = returned.map((verdicts) =>
    encodeAbiParameters([{ type: 'bytes' }], [toHex(Uint8Array.from(verdicts))]),
  )
  const viem = {
    call: async ({ to }: { to: string }) => {
      if (to !== STABLECOIN) return { data: answers.shift() }
      if (isStopped) throw new RawContractError({ data: '0x' })
      return { data: '0x' }
    },
    getBlockNumber: async () => 1n,
  }
  const contract = {
    address: ZERO_ADDRESS,
    settleCall: (orders: readonly { order: { orderHash?: string } }[]) => {
      if (orders.some(({ order }) => order.orderHash === 'Bad1')) throw new TypeError('too large')
      return { data: '0x' }
    },
  }
  return makeSimulation({
    client: { viem, pinned: () => ({ viem }) } as never,
    contract: contract as never,
    from: ZERO_ADDRESS,
    stablecoin: STABLECOIN,
    gasMax: 1_000_000,
    fees: async () => ({ maxFeePerGas: 2n, maxPriorityFeePerGas: 1n }),
  })
}

const STABLECOIN = `0x${'c'.repeat(40)}` as Address
const ASKED = {
  usedPermits: new Set<OrderHash>(),
  earlier: new Map(),
  headNumber: 0,
}

test('if an order cannot be encoded, only its own trade is refused, with its trader at fault', async () => {
  const good = trade(buy('Ann1'))
  const bad = trade(buy('Bad1'))
  const { refused, ready } = await simulationWith({ ...MANY, returned: [[0]] })([good, bad], ASKED)
  assert.deepEqual(refused, [{ tradeId: bad.tradeId, fault: 'buyer', reason: 'Unencodable' }])
  assert.deepEqual(ready?.trades, [good])
})

/**
 * Verdicts of two simulation calls, which both refuse the trade. Settlement accepts a refusal only if a second call at
 * the newest block repeats it.
 */
const REFUSED_BOTH = [SETTLEMENT_REASONS.indexOf('CollateralRefused')]
const REFUSED_TWICE = [REFUSED_BOTH, REFUSED_BOTH]

test('if the stablecoin refuses only the transfers of one trade, both of its traders are at fault', async () => {
  const { refused, revert } = await simulationWith({ ...MANY, returned: REFUSED_TWICE })(
    [trade(buy('Ann1'))],
    ASKED,
  )
  assert.deepEqual(
    refused.map(({ fault, reason }) => [fault, reason]),
    [['both', 'CollateralRefused']],
  )
  assert.equal(revert, undefined)
})

test('while the stablecoin blocks all transfers, settlement refuses no trade', async () => {
  const stopped = { returned: REFUSED_TWICE, isStopped: true }
  const { refused, revert } = await simulationWith(stopped)([trade(buy('Ann1'))], ASKED)
  assert.deepEqual([refused, revert?.name], [[], 'CollateralStopped'])
})

test('if the settlement key lacks ether, the simulation fails with an error that names the key', async () => {
  const viem = {
    call: async () => {
      throw new Error(
        'err: insufficient funds for gas * price + value: have 1 want 2000000 (supplied gas 1000000)',
      )
    },
  }
  const trial = makeSimulation({
    client: { viem, pinned: () => ({ viem }) } as never,
    contract: { address: ZERO_ADDRESS, settleCall: () => ({ data: '0x' }) } as never,
    from: ZERO_ADDRESS,
    stablecoin: STABLECOIN,
    gasMax: 1_000_000,
    fees: async () => ({ maxFeePerGas: 2_000_000_000n, maxPriorityFeePerGas: 1n }),
  })
  const asked = { usedPermits: new Set<OrderHash>(), earlier: new Map(), headNumber: 0 }
  await assert.rejects(trial([trade(buy('Ann1', 0))], asked), {
    name: 'Fault',
    code: 'SENDER_TOO_POOR',
    retryable: true,
    message: `the settlement key ${ZERO_ADDRESS} needs 0.001262 ether for a batch, and has less`,
  })
})

test('a simulation uses the gas and the fees of the transaction that follows', async () => {
  const asked: unknown[] = []
  const returned = encodeAbiParameters([{ type: 'bytes' }], ['0x00'])
  const viem = {
    call: async (request: { gas: bigint; maxFeePerGas: bigint; maxPriorityFeePerGas: bigint }) => {
      const { gas, maxFeePerGas, maxPriorityFeePerGas } = request
      asked.push({ gas, maxFeePerGas, maxPriorityFeePerGas })
      return { data: returned }
    },
  }
  const trial = makeSimulation({
    client: { viem, pinned: () => ({ viem }) } as never,
    contract: { address: ZERO_ADDRESS, settleCall: () => ({ data: '0x' }) } as never,
    from: ZERO_ADDRESS,
    stablecoin: STABLECOIN,
    gasMax: 1_000_000,
    fees: async () => ({ maxFeePerGas: 7n, maxPriorityFeePerGas: 3n }),
  })
  const options = { usedPermits: new Set<OrderHash>(), earlier: new Map(), headNumber: 0 }
  const { ready } = await trial([trade(buy('Ann1', 0))], options)
  assert.deepEqual(asked, [
    { gas: BigInt(ready?.gas ?? 0), maxFeePerGas: 7n, maxPriorityFeePerGas: 3n },
  ])
})
