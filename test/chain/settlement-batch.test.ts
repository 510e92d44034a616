import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeAbiParameters, toHex } from 'viem'
import { batchOf } from '#chain/settlement-batch.ts'
import { SETTLEMENT_REASONS } from '#chain/settlement-contract.ts'
import { makeSettlementTrial } from '#chain/settlement-trial.ts'
import { makeSparePermits, type SparePermits } from '#chain/spare-permits.ts'
import { type Address, type OrderHash, ZERO_ADDRESS } from '#domain/ids.ts'
import { BUY, SELL, type VerifiedOrder } from '#domain/order.ts'
import type { TradeToSettle } from '#domain/trade.ts'

/** A buy by its name, `Ann1`: the trader and a number; `nonce` is that of its permit. */
function buy(name: string, nonce?: number): VerifiedOrder {
  const permit = nonce === undefined ? {} : { permit: { nonce: String(nonce), value: name } }
  const [orderHash, trader] = [name, name.slice(0, 3)]
  return { side: BUY, orderHash, trader, signature: '', ...permit } as unknown as VerifiedOrder
}

let sells = 0
function trade(bought: VerifiedOrder): TradeToSettle {
  const orderHash = `sell ${++sells}`
  const sell = { side: SELL, orderHash, trader: orderHash, permit: { nonce: '0' } }
  const terms = { seq: sells, fillIndex: 0, price: 1, size: 1 }
  return { buy: bought, sell, ...terms } as unknown as TradeToSettle
}

/** `Ann1+ Bob1 Ann1`: the buys of the fills in their order, `+` where a permit is tried before. */
function written(buys: readonly VerifiedOrder[], used: readonly string[] = []): string {
  const { orders, fills, permits } = batchOf(buys.map(trade), new Set(used as OrderHash[]))
  const tried = new Map(permits.map(({ fill, permit }) => [fill, permit.value]))
  assert.deepEqual(
    [...tried.keys()],
    [...tried.keys()].sort((a, b) => a - b),
  )
  return fills
    .map((fill, at) => {
      const { orderHash } = orders[fill.buy]!.order as VerifiedOrder
      if (tried.has(at)) assert.equal(tried.get(at), orderHash as string)
      return `${orderHash}${tried.has(at) ? '+' : ''}`
    })
    .join(' ')
}

test('a permit stands before the first fill of its order, and is sent once', () => {
  const ann = buy('Ann1', 0)
  assert.equal(written([buy('Bob1'), ann, buy('Bob1'), ann]), 'Bob1 Ann1+ Bob1 Ann1')
  assert.equal(written([ann, ann], ['Ann1']), 'Ann1 Ann1')
})

test('the orders of one buyer take turns as their permits are numbered; others keep their place', () => {
  const [first, second] = [buy('Ann1', 9), buy('Ann2', 10)]
  const bob = buy('Bob1', 3)
  assert.equal(
    written([second, bob, first, second, buy('Eve1'), first]),
    'Ann1+ Bob1+ Ann1 Ann2+ Eve1 Ann2',
  )
})

test('what lives on the allowance of before comes before a permit replaces it', () => {
  const [old, plain, fresh] = [buy('Ann1', 1), buy('Ann2'), buy('Ann3', 2)]
  assert.equal(written([fresh, old, plain, fresh], ['Ann1']), 'Ann1 Ann2 Ann3+ Ann3')
})

test('a batch without permits is as it came', () => {
  const [a, b] = [buy('Ann1'), buy('Bob1')]
  assert.equal(written([b, a, b]), 'Bob1 Ann1 Bob1')
})

/** Permits of Ann’s orders that were left out, numbered from 0. */
function spareOf(count: number): SparePermits {
  const spare = makeSparePermits()
  for (let nonce = 0; nonce < count; nonce++) spare.keep(buy(`Ann left out ${nonce}`, nonce))
  return spare
}

test('a permit comes with all of its owner’s before it that were left out, each once', () => {
  const spare = spareOf(9)
  const trades = [trade(buy('Ann1', 9)), trade(buy('Ann2', 10))]
  const { permits, short } = batchOf(trades, new Set(), spare.before)
  assert.deepEqual(
    permits.map(({ permit }) => Number(permit.nonce)),
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
  )
  assert.equal(short.size, 0)
  spare.used(permits)
  assert.equal(batchOf(trades, new Set(), spare.before).permits.length, 2)
})

test('with none of them where they are too many, and its owner is short', () => {
  const spare = spareOf(200)
  const trades = [trade(buy('Ann1', 200)), trade(buy('Bob1', 0))]
  const { permits, short } = batchOf(trades, new Set(), spare.before)
  assert.deepEqual(
    permits.map(({ permit }) => permit.value),
    ['Ann1', 'Bob1'],
  )
  assert.deepEqual([...short], ['Ann'])
})

test('a refusal for want of an allowance is nobody’s fault where permits did not come along', async () => {
  const verdict = (1 << 6) | SETTLEMENT_REASONS.indexOf('InsufficientAllowance')
  const returned = encodeAbiParameters([{ type: 'bytes' }], [toHex(Uint8Array.of(verdict))])
  const viem = { call: async () => ({ data: returned }), getBlockNumber: async () => 1n }
  const trial = makeSettlementTrial({
    client: { viem, pinned: () => ({ viem }) } as never,
    contract: { address: ZERO_ADDRESS, settleCall: () => ({ data: '0x' }) } as never,
    from: ZERO_ADDRESS,
    gasMax: 1_000_000,
    fees: async () => ({ maxFeePerGas: 2n, maxPriorityFeePerGas: 1n }),
  })
  const faultWith = async (spare: SparePermits) => {
    const bought = { ...trade(buy('Ann1', 500)), buyer: 'Ann' as Address }
    const asked = { usedPermits: new Set<OrderHash>(), spare, headNumber: 0 }
    return (await trial([bought], asked)).refused.map(({ fault }) => fault)
  }
  assert.deepEqual(await faultWith(spareOf(9)), ['buyer'])
  assert.deepEqual(await faultWith(spareOf(200)), ['none'])
})

test('a node that finds the settlement key too poor for a simulation is a fault that names the key, not a refusal', async () => {
  const viem = {
    call: async () => {
      throw new Error(
        'err: insufficient funds for gas * price + value: have 1 want 2000000 (supplied gas 1000000)',
      )
    },
  }
  const trial = makeSettlementTrial({
    client: { viem, pinned: () => ({ viem }) } as never,
    contract: { address: ZERO_ADDRESS, settleCall: () => ({ data: '0x' }) } as never,
    from: ZERO_ADDRESS,
    gasMax: 1_000_000,
    fees: async () => ({ maxFeePerGas: 2_000_000_000n, maxPriorityFeePerGas: 1n }),
  })
  const asked = { usedPermits: new Set<OrderHash>(), spare: spareOf(0), headNumber: 0 }
  await assert.rejects(trial([trade(buy('Ann1', 0))], asked), {
    name: 'Fault',
    code: 'SENDER_TOO_POOR',
    retryable: true,
    message: `the settlement key ${ZERO_ADDRESS} needs 0.001262 ether for a batch, and has less`,
  })
})

test('a simulation offers the gas and the fees that the transaction will offer', async () => {
  const asked: unknown[] = []
  const returned = encodeAbiParameters([{ type: 'bytes' }], ['0x00'])
  const viem = {
    call: async (request: { gas: bigint; maxFeePerGas: bigint; maxPriorityFeePerGas: bigint }) => {
      const { gas, maxFeePerGas, maxPriorityFeePerGas } = request
      asked.push({ gas, maxFeePerGas, maxPriorityFeePerGas })
      return { data: returned }
    },
  }
  const trial = makeSettlementTrial({
    client: { viem, pinned: () => ({ viem }) } as never,
    contract: { address: ZERO_ADDRESS, settleCall: () => ({ data: '0x' }) } as never,
    from: ZERO_ADDRESS,
    gasMax: 1_000_000,
    fees: async () => ({ maxFeePerGas: 7n, maxPriorityFeePerGas: 3n }),
  })
  const options = { usedPermits: new Set<OrderHash>(), spare: spareOf(0), headNumber: 0 }
  const { ready } = await trial([trade(buy('Ann1', 0))], options)
  assert.deepEqual(asked, [
    { gas: BigInt(ready?.gas ?? 0), maxFeePerGas: 7n, maxPriorityFeePerGas: 3n },
  ])
})
