/**
 * Makes random calls of the contracts and compares the results with the model. In a batch, the contract calls itself
 * once per fill. The model predicts the result of each trade, mint and merge. Between batches, traders fund, spend,
 * approve, revoke, cancel, permit, split, merge and redeem. They also appoint each other's keys as delegates and revoke
 * them. Strangers try calls that they are not allowed to make, and submit permits of other accounts. The test also
 * moves the clock. Two traders have hostile code in their accounts, which also answers for signatures of other keys
 * (EIP-1271). For some batches the collateral becomes hostile (`hostility.ts`).
 *
 * After every batch, the test checks:
 * - the exact result of each fill, in the events and in the value that `settle` returned
 * - for some batches, that a simulation returned the same results
 * - that the settlement contract has exactly what was sent to it by mistake
 *
 * Every few batches and at the end, the test checks:
 * - every balance, allowance, approval and filled amount
 * - that collateral is neither created nor lost
 * - that the conditional tokens have locked exactly one unit for each complete set
 * - that no order is filled beyond its size
 *
 * The model moves funds only by genuine signatures, so equal balances show that no forged signature moved funds.
 */
import assert from 'node:assert/strict'
import {
  bytesToHex,
  concat,
  decodeFunctionResult,
  encodeAbiParameters,
  encodeFunctionData,
  type Hex,
  hexToBytes,
  keccak256,
  numberToHex,
  slice,
  toEventSelector,
} from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { refusalsOf } from '#chain/settlement-contract.ts'
import { devnetKey } from '#devnet/accounts.ts'
import { type MarketId, toAddress, type Uint64 } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Outcome, Side } from '#domain/order.ts'
import { loadKeccak } from '#verify/keccak.ts'
import { makeOrderSigner } from '../../../loadtest/signed-orders.ts'
import { type Arming, makeHostility } from './hostility.ts'
import {
  amount,
  type Expected,
  holding,
  isCancelled,
  isSigned,
  type KnownOrder,
  kindOf,
  type ModelFill,
  mayCancel,
  move,
  newModel,
  setDelegate,
  settleInModel,
  UNLIMITED,
} from './model.ts'
import { seeded } from './random.ts'
import {
  compact,
  FAULTS,
  type Order,
  type Permit,
  REASONS,
  SETTINGS,
  type SignedOrder,
  startWorld,
  UNIT,
  ZERO,
  ZERO_BYTES32,
} from './world.ts'

export type FuzzReport = {
  seed: number
  calls: number
  fills: number
  settled: number
  /** Settled fills by kind. */
  mints: number
  merges: number
  /** Number of settled fills with an order that was not signed by its trader's own key. */
  signedByOthers: number
  rejected: Record<string, number>
  otherCalls: Record<string, number>
  transactions: number
  /** Number of batches whose result was compared with a simulation. */
  simulated: number
  /** Number of re-entrant calls of the settlement by a token or a trader's code. All of them must fail. */
  calledBack: number
  stateChecks: number
  seconds: number
}

type Signed = KnownOrder & { readonly signed: SignedOrder }
type Question = {
  readonly to: Hex
  readonly data: Hex
  readonly expected: bigint
  readonly what: string
}
type Rpc = { status: Hex; logs: { address: Hex; topics: Hex[]; data: Hex }[] }

const TRADERS = 8
/** Number of traders with code in their accounts. */
const DELEGATED = 2
const BATCH_MAX = 16
const POOL_MIN = 60
const MARKET_LIFE_CALLS = 8_000
/** Default number of batches between two checks of all state. */
const CHECK_EVERY = 40
/** Default share of batches that are simulated first. A simulation takes as much time as the batch itself. */
const SIMULATED = 0.1
/** Address of a helper contract that calls the settlement for a batch and logs the result of `settle`. */
const REPEATER: Hex = `0x${'5e'.repeat(20)}`
const GAS_MAX = 16_777_216
const GAS = numberToHex(GAS_MAX)
/**
 * `FILL_GAS_MAX` is the maximum gas of each fill in a batch. The most expensive fill is a mint of two orders signed by
 * other keys, with a permit. `BATCH_GAS` is the maximum gas of a batch without its fills.
 */
const FILL_GAS_MAX = 1_300_000
const BATCH_GAS = 500_000
const UNKNOWN_MARKET = keccak256('0x')
const { keccak256: fastKeccak } = loadKeccak()
const FIRST_DEPOSIT = 50_000n * UNIT
/** Amount sent to the settlement contract by mistake: no trader may ever receive any of it. */
const STRAY = 1_000n * UNIT
/** Share of fills that are mints or merges. */
const SETS = 0.35

export async function fuzz(options: {
  seed: number
  calls: number
  checkEvery?: number
  simulated?: number
}): Promise<FuzzReport> {
  const started = performance.now()
  const { checkEvery = CHECK_EVERY, simulated: share = SIMULATED } = options
  const random = seeded(options.seed)
  const world = await startWorld()
  const { chain, settlement, delegates, collateral, conditionalTokens, multicall, owner } = world
  const model = newModel({
    grace: SETTINGS.settlementGraceSeconds,
    cancelDelay: SETTINGS.cancelDelaySeconds,
    tokens: conditionalTokens.address,
  })
  const report: FuzzReport = {
    seed: options.seed,
    calls: 0,
    fills: 0,
    settled: 0,
    mints: 0,
    merges: 0,
    signedByOthers: 0,
    rejected: {},
    otherCalls: {},
    transactions: 0,
    simulated: 0,
    calledBack: 0,
    stateChecks: 0,
    seconds: 0,
  }
  const traders = Array.from({ length: TRADERS }, (_, index) => chain.account(10 + index))
  const keys = new Map(
    traders.map(({ address }, index) => [address, hexToBytes(devnetKey(10 + index))]),
  )
  const signOrder = makeOrderSigner({
    chainId: chain.id,
    verifyingContract: toAddress(settlement.address),
  })
  const stranger = chain.account(4)
  await chain.setCode(REPEATER, repeaterCode(settlement.address))
  await chain.send(owner, settlement, 'setOperator', [REPEATER, true])
  const hostility = await makeHostility(world, model, traders.slice(0, DELEGATED))
  const tokenNonces = new Map<Hex, bigint>()
  const permitNonces = new Map<Hex, bigint>()
  const delegationNonces = new Map<Hex, bigint>()
  let minted = 0n
  /** Permits that a stranger has already submitted, so another submission has no effect. */
  let used: Permit[] = []
  let now = await chain.now()
  let nonce = 0n
  let seq = 0n
  let pool: Signed[] = []
  let past: ModelFill[] = []
  let markets: { id: Hex; question: Hex; positions: [bigint, bigint] }[] = []

  const settledTopic = toEventSelector(
    'TradeSettled(bytes32,address,address,bytes32,bytes32,bytes32,uint8,uint64,uint64,uint256)',
  )
  const calledBackTopic = toEventSelector('CalledBack(bool,bytes)')
  const rejectedTopic = toEventSelector('TradeRejected(bytes32,bytes32,bytes32,uint8,uint8)')

  /**
   * Sends a transaction in a block with the time `now`. Returns its receipt, or undefined if the transaction reverted.
   */
  async function send(from: Hex, to: Hex, data: Hex): Promise<Rpc | undefined> {
    report.transactions += 1
    await chain.request('evm_setNextBlockTimestamp', [numberToHex(now)])
    let hash: Hex
    try {
      hash = (await chain.request('eth_sendTransaction', [{ from, to, data, gas: GAS }])) as Hex
    } catch {
      return undefined
    }
    return (await chain.request('eth_getTransactionReceipt', [hash])) as Rpc
  }

  /** Simulates a batch in the next block, and returns the result. */
  async function simulated(data: Hex): Promise<ReturnType<typeof refusalsOf>> {
    await chain.request('evm_setNextBlockTimestamp', [numberToHex(now)])
    const call = { from: owner.address, to: settlement.address, data, gas: GAS }
    return refusalsOf((await chain.request('eth_call', [call, 'pending'])) as Hex)
  }

  /**
   * Sends a call other than a batch. Asserts that the call succeeds if `succeeds` is true, and that it reverts
   * otherwise.
   */
  async function call(
    name: string,
    from: Hex,
    to: Hex,
    data: Hex,
    succeeds: boolean | (() => boolean) = true,
  ) {
    report.calls += 1
    report.otherCalls[name] = (report.otherCalls[name] ?? 0) + 1
    now += BigInt(1 + random.below(20))
    const expected = typeof succeeds === 'boolean' ? succeeds : succeeds()
    const receipt = await send(from, to, data)
    assert.equal(receipt !== undefined, expected, `${name}, seed ${options.seed}`)
    return expected
  }

  const usdc = (functionName: 'mint' | 'transfer' | 'approve', args: [Hex, bigint]) =>
    encodeFunctionData({ abi: collateral.abi, functionName, args })
  const setFor = (functionName: 'splitPosition' | 'mergePositions', id: Hex, value: bigint) =>
    encodeFunctionData({
      abi: conditionalTokens.abi,
      functionName,
      args: [collateral.address, ZERO_BYTES32, id, [1n, 2n], value],
    })

  async function deposit(trader: Hex, value: bigint): Promise<void> {
    await call('mint', owner.address, collateral.address, usdc('mint', [trader, value]))
    model.collateral.set(trader, amount(model.collateral, trader) + value)
    minted += value
  }

  async function split(trader: Hex, id: Hex, value: bigint): Promise<void> {
    const possible =
      amount(model.collateral, trader) >= value &&
      model.markets.has(id) &&
      !hostility.delegated.has(trader)
    const data = setFor('splitPosition', id, value)
    await call('split', trader, conditionalTokens.address, data, possible)
    if (!possible) return
    move<Hex>(model.collateral, trader, conditionalTokens.address, value)
    for (const outcome of [0, 1]) {
      const key = holding(trader, id, outcome)
      model.shares.set(key, amount(model.shares, key) + value)
    }
  }

  async function merge(trader: Hex, id: Hex, value: bigint): Promise<void> {
    const keysOf = [0, 1].map((outcome) => holding(trader, id, outcome))
    const possible = keysOf.every((key) => amount(model.shares, key) >= value)
    const data = setFor('mergePositions', id, value)
    await call('merge', trader, conditionalTokens.address, data, possible)
    if (!possible) return
    for (const key of keysOf) model.shares.set(key, amount(model.shares, key) - value)
    move<Hex>(model.collateral, conditionalTokens.address, trader, value)
  }

  async function openMarkets(): Promise<void> {
    markets = []
    for (let i = 0; i < 2; i += 1) {
      nonce += 1n
      const question = keccak256(numberToHex(nonce, { size: 32 }))
      const prepare = encodeFunctionData({
        abi: conditionalTokens.abi,
        functionName: 'prepareCondition',
        args: [owner.address, question, 2n],
      })
      await call('prepareCondition', owner.address, conditionalTokens.address, prepare)
      const id = await world.read(conditionalTokens, 'getConditionId', [
        owner.address,
        question,
        2n,
      ])
      const positions = await Promise.all([world.positionId(id, 0), world.positionId(id, 1)])
      model.markets.add(id)
      markets.push({ id, question, positions: positions as [bigint, bigint] })
      for (const { address } of traders) {
        await split(address, id, amount(model.collateral, address) / BigInt(4 + random.below(4)))
      }
    }
    pool = []
    past = []
  }

  /**
   * Resolves each market, and redeems all shares of all traders by signature. Asserts that no collateral stays locked.
   */
  async function closeMarkets(): Promise<void> {
    for (const { id, question } of markets) {
      const winner = random.below(2)
      const reportPayouts = encodeFunctionData({
        abi: conditionalTokens.abi,
        functionName: 'reportPayouts',
        args: [question, winner === 0 ? [1n, 0n] : [0n, 1n]],
      })
      await call('reportPayouts', owner.address, conditionalTokens.address, reportPayouts)
      for (const trader of traders) {
        const tokenNonce = amount(tokenNonces, trader.address)
        const args = await world.signRedemption(trader, id, {
          deadline: now + 1_000n,
          nonce: tokenNonce,
        })
        const data = encodeFunctionData({
          abi: conditionalTokens.abi,
          functionName: 'redeemPositionsWithPermit',
          args,
        })
        await call('redeem', stranger.address, conditionalTokens.address, data)
        if (random.chance(0.2)) {
          await call('redeem replay', stranger.address, conditionalTokens.address, data, false)
        }
        tokenNonces.set(trader.address, tokenNonce + 1n)
        const payout = amount(model.shares, holding(trader.address, id, winner))
        for (const outcome of [0, 1]) model.shares.delete(holding(trader.address, id, outcome))
        move<Hex>(model.collateral, conditionalTokens.address, trader.address, payout)
      }
    }
    await checkState()
    assert.equal(amount(model.collateral, conditionalTokens.address), 0n)
    for (const { id } of markets) model.markets.delete(id)
  }

  function newOrder(): Signed {
    const trader = random.pick(traders)
    nonce += 1n
    const unknown = random.chance(0.02)
    // Traders with code in their accounts cannot split, so they have little to sell.
    const mostlyBuys = hostility.delegated.has(trader.address) && random.chance(0.8)
    const side = mostlyBuys ? 0 : random.below(2)
    const order: Order = {
      marketId: unknown ? UNKNOWN_MARKET : random.pick(markets).id,
      trader: trader.address,
      side,
      outcome: random.below(2),
      price: BigInt(side === 0 ? 999_999 - random.below(600_000) : 1 + random.below(600_000)),
      size: randomSize(),
      nonce,
      expiration: now + BigInt(60 + random.below(40_000)),
      makerFeeRecipient: random.chance(0.01) ? stranger.address : ZERO,
    }
    const signer = random.chance(0.15) ? otherSigner(trader.address) : trader
    const { hash, signature } = signOrder(
      {
        marketId: order.marketId as MarketId,
        trader: toAddress(order.trader),
        side: order.side as Side,
        outcome: order.outcome as Outcome,
        price: Number(order.price) as Price,
        size: Number(order.size) as Shares,
        nonce: String(order.nonce) as Uint64,
        expiration: String(order.expiration) as Uint64,
        makerFeeRecipient: toAddress(order.makerFeeRecipient),
      },
      keys.get(signer.address)!,
    )
    return {
      order,
      hash: bytesToHex(hash),
      signer: signer.address,
      signed: { order, ...compact(signature as Hex) },
    }
  }

  /**
   * Returns the key that signs instead of the account's own key. It is usually the key of a delegate. Otherwise it is a
   * random trader's key, so the signature is usually a forgery.
   */
  function otherSigner(account: Hex): PrivateKeyAccount {
    const appointed = traders.filter(
      ({ address }) => amount(model.delegates, `${account} ${address}`) > now,
    )
    return random.pick(appointed.length > 0 && random.chance(0.8) ? appointed : traders)
  }

  /** Returns an ordinary size; sometimes a few units, and sometimes far more than any trader has. */
  function randomSize(): bigint {
    if (random.chance(0.05)) return BigInt(1 + random.below(20))
    if (random.chance(0.02)) return BigInt(Number.MAX_SAFE_INTEGER - random.below(100))
    return BigInt(1 + random.below(300_000_000))
  }

  /** Returns a fill of two orders that usually cross. Sometimes the fill is invalid in one of the possible ways. */
  function newFill(): ModelFill {
    if (past.length > 0 && random.chance(0.06)) return random.pick(past)
    const sets = random.chance(SETS) ? newSets() : undefined
    if (sets !== undefined) return sets
    const open = ({ hash, order }: Signed) => amount(model.filled, hash) < order.size
    const sells = pool.filter((known) => known.order.side === 1 && open(known))
    let sell = random.pick(pool)
    let buy = random.pick(pool)
    for (let tries = random.chance(0.04) ? 0 : 10; tries > 0 && sells.length > 0; tries -= 1) {
      sell = random.pick(sells)
      const { marketId, outcome, price } = sell.order
      const buys = pool.filter(
        (known) =>
          known.order.side === 0 &&
          known.order.marketId === marketId &&
          known.order.outcome === outcome &&
          known.order.price >= price &&
          open(known),
      )
      if (buys.length === 0) continue
      buy = random.pick(buys)
      break
    }
    const spread = Number(buy.order.price - sell.order.price)
    const price = sell.order.price + BigInt(spread > 0 ? random.below(spread + 1) : 0)
    return fillOf(buy, sell, price)
  }

  /**
   * Returns a mint or a merge of two crossing orders for different outcomes. The fill has the price and the outcome of
   * one of the two orders, chosen at random.
   */
  function newSets(): ModelFill | undefined {
    const open = ({ hash, order }: Signed) => amount(model.filled, hash) < order.size
    const priced = random.pick(pool)
    const { side, marketId, outcome, price } = priced.order
    const others = pool.filter(({ order }) => {
      const isOther = order.marketId === marketId && order.outcome !== outcome
      const sum = order.price + price
      return isOther && order.side === side && (side === 0 ? sum >= ONE : sum <= ONE)
    })
    const other = random.pick(others.filter(open))
    if (other === undefined) return undefined
    const spread = side === 0 ? other.order.price + price - ONE : ONE - other.order.price - price
    const inside = BigInt(random.below(Number(spread) + 1))
    if (side === 0) return fillOf(priced, other, price - inside)
    return fillOf(other, priced, price + inside)
  }

  function fillOf(buy: Signed, sell: Signed, crossing: bigint): ModelFill {
    seq += 1n
    const price = random.chance(0.02) ? BigInt(random.below(1_000_100)) : crossing
    const room = [buy, sell].map(({ hash, order }) => order.size - amount(model.filled, hash))
    let size = randomSize()
    for (const left of room) if (left < size) size = left
    if (random.chance(0.02)) size = randomSize()
    // The size is sometimes one unit more than the remaining size of one of the orders.
    if (random.chance(0.02)) size = random.pick(room) + 1n
    if (random.chance(0.005)) size = 0n
    return { buy, sell, seq, fillIndex: random.below(3), price, size: size < 0n ? 0n : size }
  }

  function tradeIdOf({ buy, sell, seq: number, fillIndex, price, size }: ModelFill): Hex {
    const terms = encodeAbiParameters(TRADE_ID, [
      BigInt(chain.id),
      settlement.address,
      buy.order.marketId,
      number,
      fillIndex,
      buy.hash,
      sell.hash,
      price,
      size,
    ])
    return bytesToHex(fastKeccak(hexToBytes(terms)))
  }

  async function randomPermit(): Promise<Permit> {
    const trader = random.pick(traders)
    const late = random.chance(0.15)
    const wrongNonce = random.chance(0.1)
    const forged = random.chance(0.1)
    const value = random.chance(0.3) ? UNLIMITED : BigInt(random.below(2_000_000_000))
    const current = amount(permitNonces, trader.address)
    const signer = forged ? stranger : trader
    const permit = await world.usdcPermit(signer, settlement.address, value, {
      deadline: late ? now - 1n : now + 10n,
      nonce: wrongNonce ? current + 1n : current,
    })
    if (!late && !wrongNonce && !forged) {
      permitNonces.set(trader.address, current + 1n)
      model.allowance.set(trader.address, value)
    }
    return { ...permit, owner: trader.address }
  }

  /**
   * Returns a later time: usually some seconds later, and sometimes hours later. Sometimes the result is the second in
   * which an order becomes void, or the second before.
   */
  function laterTime(): bigint {
    if (random.chance(0.01)) return now + 8_000n
    if (random.chance(0.1)) {
      const voidFrom = random.pick<(known: Signed) => bigint | undefined>([
        ({ order }) => order.expiration + model.grace + 1n,
        ({ hash }) => model.cancelledFrom.get(hash),
        ({ order }) => model.epochs.get(order.trader)?.from,
        ({ order, signer }) => amount(model.delegates, `${order.trader} ${signer}`) + 1n,
      ])
      let next: bigint | undefined
      for (const known of pool) {
        const from = voidFrom(known) ?? 0n
        if (from > now + 1n && (next === undefined || from < next)) next = from
      }
      if (next !== undefined) return next - BigInt(random.below(2))
    }
    return now + BigInt(1 + random.below(15))
  }

  async function settleBatch(): Promise<void> {
    // Removes most orders that can never settle again. A few stay, so that the test also tries to settle such orders.
    const stale = (known: Signed) =>
      !isSigned(model, known, now) ||
      known.order.makerFeeRecipient !== ZERO ||
      known.order.marketId === UNKNOWN_MARKET ||
      amount(model.filled, known.hash) === known.order.size ||
      known.order.expiration + model.grace < now ||
      isCancelled(model, known, now)
    pool = pool.filter((known) => !random.chance(stale(known) ? 0.7 : 0.03))
    for (let i = random.below(8); i > 0; i -= 1) pool.push(newOrder())
    while (pool.length < POOL_MIN) pool.push(newOrder())
    if (random.chance(0.2)) await armed(hostility.rearm(random))
    const isHostile = random.chance(0.2)
    if (isHostile) for (const arming of hostility.arm(random, traders)) await armed(arming)
    now = laterTime()
    const permits: Permit[] = []
    const batch: ModelFill[] = []
    const expected: { tradeId: Hex; result: Expected }[] = []
    const limit = Math.floor((GAS_MAX - BATCH_GAS) / FILL_GAS_MAX)
    for (let i = 1 + random.below(Math.min(BATCH_MAX, limit)); i > 0; i -= 1) {
      const fill = newFill()
      while (random.chance(0.03)) permits.push({ ...(await randomPermit()), fill: batch.length })
      if (used.length > 0 && random.chance(0.02)) {
        permits.push({ ...random.pick(used), fill: batch.length })
      }
      const tradeId = tradeIdOf(fill)
      batch.push(fill)
      expected.push({ tradeId, result: settleInModel(model, fill, tradeId, now) })
    }
    const orders = [...new Set(batch.flatMap(({ buy, sell }) => [buy, sell]))] as Signed[]
    const data = encodeFunctionData({
      abi: settlement.abi,
      functionName: 'settle',
      args: [
        orders.map(({ signed }) => signed),
        batch.map(({ buy, sell, ...fill }) => ({
          ...fill,
          buy: orders.indexOf(buy as Signed),
          sell: orders.indexOf(sell as Signed),
        })),
        permits,
      ],
    })
    const foreseen = random.chance(share) ? await simulated(data) : undefined
    const receipt = await send(owner.address, REPEATER, data)
    assert.ok(receipt, `the batch reverted, seed ${options.seed}`)
    const refusals = expected.map(({ result }) => {
      if (result.settled) return undefined
      return { fault: result.fault.toLowerCase(), reason: result.reason }
    })
    if (foreseen !== undefined) {
      report.simulated += 1
      assert.deepEqual(foreseen, refusals, `simulated, seed ${options.seed}`)
    }
    const returned = receipt.logs.find(({ address }) => address === REPEATER)?.data
    assert.ok(returned)
    assert.deepEqual(refusalsOf(returned), refusals, `returned, seed ${options.seed}`)
    assert.deepEqual(verdictsOf(receipt), expected, `seed ${options.seed}`)
    expected.forEach(({ result }, index) => {
      report.calls += 1
      report.fills += 1
      if (result.settled) {
        const kind = kindOf(batch[index]!)
        report.settled += 1
        if (kind === 'mint') report.mints += 1
        if (kind === 'merge') report.merges += 1
        const orders = [batch[index]!.buy, batch[index]!.sell]
        if (orders.some(({ order, signer }) => order.trader !== signer)) report.signedByOthers += 1
      } else {
        const name = `${result.reason} (${result.fault})`
        report.rejected[name] = (report.rejected[name] ?? 0) + 1
      }
    })
    await checkHeld()
    past.push(...batch.slice(0, 4))
    if (past.length > 400) past = past.slice(200)
    if (isHostile) for (const arming of hostility.disarm()) await armed(arming)
  }

  async function armed({ name, to, data }: Arming): Promise<void> {
    await call(name, stranger.address, to, data)
  }

  /** Makes a stranger submit the permit of a trader before the exchange does. */
  async function bringPermit(): Promise<void> {
    const trader = random.pick(traders)
    const forged = random.chance(0.15)
    const value = random.chance(0.5) ? UNLIMITED : BigInt(random.below(2_000_000_000))
    const current = amount(permitNonces, trader.address)
    const signed = await world.usdcPermit(forged ? stranger : trader, settlement.address, value, {
      deadline: now + 1_000n,
      nonce: current,
    })
    const { deadline, v, r, s } = signed
    const data = encodeFunctionData({
      abi: collateral.abi,
      functionName: 'permit',
      args: [trader.address, settlement.address, value, deadline, v, r, s],
    })
    await call('permit by a stranger', stranger.address, collateral.address, data, !forged)
    if (forged) return
    permitNonces.set(trader.address, current + 1n)
    model.allowance.set(trader.address, value)
    used = [...used.slice(-50), { ...signed, owner: trader.address }]
  }

  function verdictsOf({ logs }: Rpc): { tradeId: Hex; result: Expected }[] {
    return logs.flatMap(({ address, topics, data }): { tradeId: Hex; result: Expected }[] => {
      const [topic, tradeId] = topics as [Hex, Hex]
      const word = (index: number) => slice(data, 32 * index, 32 * index + 32)
      if (topic === calledBackTopic) {
        report.calledBack += 1
        assert.equal(BigInt(word(0)), 0n, `a call back settled, seed ${options.seed}`)
      }
      if (address !== settlement.address.toLowerCase()) return []
      if (topic === settledTopic) {
        return [{ tradeId, result: { settled: true, cost: BigInt(word(6)) } }]
      }
      assert.equal(topic, rejectedTopic)
      const fault = FAULTS[Number(word(0))]!
      const reason = REASONS[Number(word(1))]!
      return [{ tradeId, result: { settled: false, fault, reason } }]
    })
  }

  /** Makes a random call that is not a batch, from a trader or a stranger. */
  async function otherCall(): Promise<void> {
    const broken = traders.filter(
      ({ address }) =>
        !model.approved.has(address) || amount(model.allowance, address) < 1_000n * UNIT,
    )
    const heals = broken.length > 0 && random.chance(0.6)
    const trader = random.pick(heals ? broken : traders).address
    const { id } = random.pick(markets)
    const value = BigInt(random.below(500_000_000))
    const kind = heals ? (model.approved.has(trader) ? 3 : 5) : random.below(16)
    if (kind === 0) return deposit(trader, value)
    if (kind === 1) return split(trader, id, value)
    if (kind === 2) return merge(trader, id, value)
    if (kind === 3) {
      const allowance = random.chance(0.7) ? UNLIMITED : value
      const data = usdc('approve', [settlement.address, allowance])
      await call('approve', trader, collateral.address, data)
      model.allowance.set(trader, allowance)
    } else if (kind === 4) {
      const to = random.pick(traders).address
      const all = amount(model.collateral, trader)
      const sent = random.chance(0.4) ? all : value
      const data = usdc('transfer', [to, sent])
      await call('transfer', trader, collateral.address, data, all >= sent)
      if (all >= sent) move(model.collateral, trader, to, sent)
    } else if (kind === 5) {
      const approved = random.chance(0.85)
      const data = encodeFunctionData({
        abi: conditionalTokens.abi,
        functionName: 'setApprovalForAll',
        args: [settlement.address, approved],
      })
      await call('setApprovalForAll', trader, conditionalTokens.address, data)
      if (approved) model.approved.add(trader)
      else model.approved.delete(trader)
    } else if (kind === 6 && pool.length > 0) {
      const { order, hash } = random.pick(pool)
      const own = order.trader === trader || random.chance(0.7)
      const from = own ? order.trader : trader
      const data = encodeFunctionData({
        abi: settlement.abi,
        functionName: 'cancelOrders',
        args: [[order]],
      })
      await call('cancelOrders', from, settlement.address, data, own)
      if (own && !model.cancelledFrom.has(hash)) {
        model.cancelledFrom.set(hash, now + model.cancelDelay)
      }
    } else if (kind === 9) {
      await cancelAll(trader)
    } else if (kind === 10 && pool.length > 0) {
      await cancelBySignature()
    } else if (kind === 11) {
      await cancelAllBySignature(random.pick(traders))
    } else if (kind === 12) {
      await armed(hostility.rearm(random))
    } else if (kind === 13) {
      await bringPermit()
    } else if (kind === 14) {
      await appoint(trader)
    } else if (kind === 15) {
      await appointBySignature(random.pick(traders))
    } else if (kind === 7) {
      const data = encodeFunctionData({
        abi: settlement.abi,
        functionName: 'settle',
        args: [[], [], []],
      })
      // Accounts with code are operators and may call `settle`, so that their callbacks reach the guard against
      // re-entry.
      const mayCall = hostility.delegated.has(trader)
      await call('settle by a trader', trader, settlement.address, data, mayCall)
    } else {
      const data = encodeFunctionData({
        abi: settlement.abi,
        functionName: 'probeCollateral',
        args: [trader],
      })
      await call('inner call by a stranger', trader, settlement.address, data, false)
    }
  }

  /** Appoints another trader's key as a delegate, changes the end of the appointment, or revokes it. */
  async function appoint(account: Hex, fixed?: bigint): Promise<void> {
    const delegate = random.pick(traders).address
    const until = fixed ?? (random.chance(0.3) ? 0n : now + BigInt(random.below(60_000)))
    const data = encodeFunctionData({
      abi: delegates.abi,
      functionName: 'setDelegate',
      args: [delegate, until, { maxOrderSize: 0n, maxOpenNotional: 0n, markets: [] }],
    })
    const isOther = delegate !== account
    await call('setDelegate', account, delegates.address, data, isOther)
    if (isOther) appointed([account, delegate], until)
  }

  function appointed([account, delegate]: readonly [Hex, Hex], until: bigint): void {
    setDelegate(model, [account, delegate], until, now)
    delegationNonces.set(account, amount(delegationNonces, account) + 1n)
  }

  /** Makes a stranger submit a signed appointment: genuine, forged, late, with a used nonce, or twice. */
  async function appointBySignature(account: PrivateKeyAccount): Promise<void> {
    const [forged, late] = [random.chance(0.15), random.chance(0.1)]
    const { address } = account
    const delegate = random.pick(traders).address
    const until = random.chance(0.3) ? 0n : now + BigInt(random.below(60_000))
    const current = amount(delegationNonces, address)
    const nonce = current > 0n && random.chance(0.1) ? current - 1n : current
    const deadline = late ? now - 1n : now + 1_000n
    const signed = await world.signDelegation(forged ? stranger : account, delegate, until, {
      ...{ account: address, nonce, deadline },
    })
    const data = encodeFunctionData({
      abi: delegates.abi,
      functionName: 'setDelegateWithPermit',
      args: signed,
    })
    for (let times = random.chance(0.3) ? 2 : 1; times > 0; times -= 1) {
      const isUsed = nonce !== amount(delegationNonces, address)
      const good = isTrue(address, forged || isUsed) && !late && delegate !== address
      await call('setDelegateWithPermit', stranger.address, delegates.address, data, good)
      if (good) appointed([address, delegate], until)
    }
  }

  /**
   * Returns an epoch: usually a little below the newest nonces, and sometimes above them. A trader's orders with nonces
   * below the epoch become void.
   */
  function randomEpoch(): bigint {
    const epoch = nonce + BigInt(random.below(60)) - BigInt(random.below(400))
    return epoch < 0n ? 0n : epoch
  }

  function epochOf(trader: Hex) {
    return model.epochs.get(trader) ?? { nonce: 0n, next: 0n, from: 0n }
  }

  /**
   * Returns whether the contract accepts this epoch now. The contract refuses it only if the trader's last epoch is not
   * in force yet and this epoch is higher than the last.
   */
  function takesEpoch(trader: Hex, epoch: bigint): boolean {
    const known = epochOf(trader)
    return epoch <= known.next || now >= known.from
  }

  function setEpoch(trader: Hex, epoch: bigint): void {
    const known = epochOf(trader)
    if (epoch <= known.next) return
    model.epochs.set(trader, { nonce: known.next, next: epoch, from: now + model.cancelDelay })
  }

  async function cancelAll(trader: Hex): Promise<void> {
    const epoch = randomEpoch()
    const data = encodeFunctionData({
      abi: settlement.abi,
      functionName: 'cancelAllBefore',
      args: [epoch],
    })
    const taken = () => takesEpoch(trader, epoch)
    if (await call('cancelAllBefore', trader, settlement.address, data, taken)) {
      setEpoch(trader, epoch)
    }
  }

  /** Returns whether the contracts accept a signature: it is genuine, or the account's code accepts every signature. */
  function isTrue(account: Hex, isForged: boolean): boolean {
    return !isForged || model.credulous.has(account)
  }

  async function cancelAllBySignature(trader: PrivateKeyAccount): Promise<void> {
    const [forged, late] = [random.chance(0.15), random.chance(0.15)]
    const epoch = randomEpoch()
    const deadline = late ? now - 1n : now + 1_000n
    const signed = await world.signEpoch(forged ? stranger : trader, epoch, { deadline })
    const [, ...rest] = signed
    const data = encodeFunctionData({
      abi: settlement.abi,
      functionName: 'cancelAllBeforeWithPermit',
      args: [trader.address, ...rest],
    })
    const taken = () => isTrue(trader.address, forged) && !late && takesEpoch(trader.address, epoch)
    // Submitting the epoch a second time changes nothing.
    for (let times = random.chance(0.3) ? 2 : 1; times > 0; times -= 1) {
      if (
        await call('cancelAllBeforeWithPermit', stranger.address, settlement.address, data, taken)
      ) {
        setEpoch(trader.address, epoch)
      }
    }
  }

  async function cancelBySignature(): Promise<void> {
    const [forged, late] = [random.chance(0.15), random.chance(0.15)]
    const trader = random.pick(traders)
    const theirs = pool.filter(({ order }) => order.trader === trader.address)
    const cancelled = theirs.filter(() => random.chance(0.3))
    const foreign = random.chance(0.1)
      ? pool.filter(({ order }) => order.trader !== trader.address)
      : []
    const chosen = [...cancelled, ...foreign.slice(0, 1)]
    const orders = chosen.map(({ order }) => order)
    const deadline = late ? now - 1n : now + 1_000n
    const signer = forged ? stranger : random.chance(0.3) ? random.pick(traders) : trader
    const whose = { trader: trader.address, deadline }
    const [, ...rest] = await world.signCancellation(signer, orders, whose)
    const data = encodeFunctionData({
      abi: settlement.abi,
      functionName: 'cancelOrdersWithPermit',
      args: [trader.address, ...rest],
    })
    const good = () =>
      mayCancel(model, trader.address, signer.address, now) && !late && foreign.length === 0
    for (let times = random.chance(0.3) ? 2 : 1; times > 0; times -= 1) {
      const { address } = settlement
      if (!(await call('cancelOrdersWithPermit', stranger.address, address, data, good))) continue
      for (const { hash } of chosen) {
        if (!model.cancelledFrom.has(hash)) {
          model.cancelledFrom.set(hash, now + model.cancelDelay)
        }
      }
    }
  }

  const balanceOf = (who: Hex) =>
    encodeFunctionData({ abi: collateral.abi, functionName: 'balanceOf', args: [who] })
  const sharesOf = (who: Hex, position: bigint) =>
    encodeFunctionData({
      abi: conditionalTokens.abi,
      functionName: 'balanceOf',
      args: [who, position],
    })

  /** Checks that the settlement contract has neither kept funds of a trader nor lost its own. */
  function checkHeld(): Promise<void> {
    const to = conditionalTokens.address
    const tokens = markets.flatMap(({ positions }) => positions)
    return compare([
      {
        ...{ to: collateral.address, data: balanceOf(settlement.address), expected: STRAY },
        what: 'held by the settlement',
      },
      ...tokens.map((position) => ({
        ...{ to, data: sharesOf(settlement.address, position), expected: 0n },
        what: 'shares held by the settlement',
      })),
    ])
  }

  /** Asserts that a unit of collateral is locked for each complete set, and for nothing else. */
  function checkSets(): void {
    let sets = 0n
    for (const { id } of markets) {
      const [yes, no] = [0, 1].map((outcome) =>
        traders.reduce(
          (sum, { address }) => sum + amount(model.shares, holding(address, id, outcome)),
          0n,
        ),
      ) as [bigint, bigint]
      assert.equal(yes, no, 'as many YES as NO')
      sets += yes
    }
    assert.equal(amount(model.collateral, conditionalTokens.address), sets, 'locked for sets')
  }

  /** Compares everything the chain holds with the model. */
  async function checkState(): Promise<void> {
    report.stateChecks += 1
    checkSets()
    const questions: Question[] = []
    const ask = (to: Hex, data: Hex, expected: bigint, what: string) =>
      questions.push({ to, data, expected, what })
    for (const { address } of traders) {
      ask(collateral.address, balanceOf(address), amount(model.collateral, address), 'collateral')
      const allowance = encodeFunctionData({
        abi: collateral.abi,
        functionName: 'allowance',
        args: [address, settlement.address],
      })
      ask(collateral.address, allowance, amount(model.allowance, address), 'allowance')
      const epoch = encodeFunctionData({
        abi: settlement.abi,
        functionName: 'epochOf',
        args: [address],
      })
      ask(settlement.address, epoch, epochOf(address).nonce, 'epoch')
      for (const { id, positions } of markets) {
        positions.forEach((position, outcome) => {
          const held = amount(model.shares, holding(address, id, outcome))
          ask(conditionalTokens.address, sharesOf(address, position), held, 'shares')
        })
      }
    }
    const locked = amount(model.collateral, conditionalTokens.address)
    ask(collateral.address, balanceOf(conditionalTokens.address), locked, 'locked')
    const fees = amount(model.collateral, model.feeReceiver)
    ask(collateral.address, balanceOf(model.feeReceiver), fees, 'fees of the collateral')
    for (const { hash, order } of pool) {
      const filled = amount(model.filled, hash)
      assert.ok(filled <= order.size)
      const data = encodeFunctionData({
        abi: settlement.abi,
        functionName: 'orderState',
        args: [hash],
      })
      ask(settlement.address, data, filled, 'filled')
    }
    let total = 0n
    for (const value of model.collateral.values()) total += value
    assert.equal(total, minted, 'collateral created or lost')
    await compare(questions)
  }

  async function compare(questions: readonly Question[]): Promise<void> {
    const answer = (await chain.request('eth_call', [
      {
        to: multicall.address,
        gas: GAS,
        data: encodeFunctionData({
          abi: multicall.abi,
          functionName: 'aggregate3',
          args: [
            questions.map(({ to, data }) => ({ target: to, allowFailure: false, callData: data })),
          ],
        }),
      },
      'latest',
    ])) as Hex
    const results = decodeFunctionResult({
      abi: multicall.abi,
      functionName: 'aggregate3',
      data: answer,
    })
    results.forEach(({ returnData }, index) => {
      const { expected, what } = questions[index]!
      assert.equal(BigInt(slice(returnData, 0, 32)), expected, `${what}, seed ${options.seed}`)
    })
  }

  try {
    await deposit(settlement.address, STRAY)
    for (const { address } of traders) {
      await deposit(address, FIRST_DEPOSIT)
      for (const spender of [settlement.address, conditionalTokens.address]) {
        const data = usdc('approve', [spender, UNLIMITED])
        await call('approve', address, collateral.address, data)
      }
      model.allowance.set(address, UNLIMITED)
      const data = encodeFunctionData({
        abi: conditionalTokens.abi,
        functionName: 'setApprovalForAll',
        args: [settlement.address, true],
      })
      await call('setApprovalForAll', address, conditionalTokens.address, data)
      model.approved.add(address)
    }
    for (const { address } of traders) await appoint(address, now + 1_000_000n)
    let nextMarkets = 0
    let batches = 0
    while (report.calls < options.calls) {
      if (report.calls >= nextMarkets) {
        if (markets.length > 0) await closeMarkets()
        await openMarkets()
        nextMarkets = report.calls + MARKET_LIFE_CALLS
      }
      await settleBatch()
      batches += 1
      if (random.chance(0.7)) await otherCall()
      if (batches % checkEvery === 0) await checkState()
    }
    await closeMarkets()
  } finally {
    await chain.close()
  }
  report.seconds = Math.round((performance.now() - started) / 100) / 10
  return report
}

/**
 * Returns the code of a helper contract that forwards its call to `target`, and logs the returned data or reverts with
 * it.
 */
function repeaterCode(target: Hex): Hex {
  return concat([
    '0x365f5f37', // calldatacopy(0, 0, calldatasize)
    '0x5f5f365f5f73', // call(gas, target, 0, 0, calldatasize, 0, 0)
    target,
    '0x5af1',
    '0x3d5f5f3e', // returndatacopy(0, 0, returndatasize)
    '0x602a57', // if the call failed:
    '0x3d5ffd', //   revert(0, returndatasize)
    '0x5b3d5fa000', // log0(0, returndatasize)
  ])
}

const ONE = 1_000_000n
const TRADE_ID = [
  { type: 'uint256' },
  { type: 'address' },
  { type: 'bytes32' },
  { type: 'uint64' },
  { type: 'uint32' },
  { type: 'bytes32' },
  { type: 'bytes32' },
  { type: 'uint64' },
  { type: 'uint64' },
] as const
