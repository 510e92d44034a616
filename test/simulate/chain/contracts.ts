/**
 * The rules of our contracts, without an EVM: the settlement contract, the stablecoin, the outcome tokens and the
 * multicall. Signatures are symbolic: an order is signed if the first word of its signature is its hash. A permit is
 * signed if `permits` has the last word of its signature.
 */

import {
  type DecodeFunctionDataReturnType,
  encodeAbiParameters,
  encodeFunctionResult,
  type Hex,
  type Address as HexAddress,
  isAddressEqual,
  maxUint256,
} from 'viem'
import { positionIdOf } from '#chain/position-id.ts'
import {
  SETTLEMENT_FAULTS,
  SETTLEMENT_REASONS,
  settlementContract,
} from '#chain/settlement-contract.ts'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { multicallAbi } from '#contracts/artifacts/Multicall.abi.ts'
import { settlementAbi } from '#contracts/artifacts/Settlement.abi.ts'
import { testUSDCAbi } from '#contracts/artifacts/TestUSDC.abi.ts'
import {
  type Address,
  type MarketId,
  type OrderHash,
  toAddress,
  tradeId,
  type Uint64,
} from '#domain/ids.ts'
import { costCeil, ONE, type Price, type Shares } from '#domain/money.ts'
import { BUY, expiresAtSec, type Order, type Outcome, SELL, type Side } from '#domain/order.ts'
import { makeOrderHasher } from '#domain/order-hash.ts'
import type { FaultySide } from '#domain/trade.ts'
import { loadKeccak } from '#verify/keccak.ts'
import { decodedCall, logOf, revertData } from './abi.ts'
import { type ChainMarket, FactoryModel } from './factory.ts'
import { OracleModel } from './oracle-model.ts'
import { RelayModel } from './relay-model.ts'

export const GRACE_SEC = 3_600
const CANCEL_DELAY_SEC = 7_200
/** The gas of a call without a limit. */
const GAS_MAX = 30_000_000n

export type ChainContracts = {
  readonly chainId: number
  readonly settlement: Address
  readonly stablecoin: Address
  readonly conditionalTokens: Address
  readonly multicall: Address
  readonly operator: Address
  readonly marketFactory: Address
  /** The account that creates and resolves quick markets. */
  readonly marketOperator?: Address
}

export type Token = `${MarketId}/${Outcome}`

/** Funds of one account, and its approvals for the settlement contract. */
export type Wallet = {
  readonly dollars: bigint
  readonly allowance: bigint
  readonly isApproved: boolean
  /** Nonce of its next permit. */
  readonly permits: bigint
  /** Nonce of its next signature for the outcome tokens. */
  readonly tokensNonce: bigint
  readonly shares: ReadonlyMap<Token, bigint>
}

export const EMPTY_WALLET: Wallet = {
  ...{
    dollars: 0n,
    allowance: 0n,
    isApproved: false,
    permits: 0n,
    tokensNonce: 0n,
    shares: new Map(),
  },
}

/** A signed permit, by the last word of its signature. */
export type SignedPermit = {
  readonly owner: Address
  readonly nonce: bigint
  readonly value: bigint
  readonly deadlineSec: number
}

export type ModelLog = {
  readonly address: HexAddress
  readonly topics: readonly Hex[]
  readonly data: Hex
}

/** State at one block, before or while a transaction runs. */
export type Funds = {
  readonly nowSec: number
  readonly isPaused: boolean
  wallet(owner: Address): Wallet
  put(owner: Address, wallet: Wallet): void
  filledOf(orderHash: OrderHash): number
  isSettled(tradeKey: string): boolean
  isPrepared(marketId: MarketId): boolean
  prepare(marketId: MarketId): void
  /** Markets by the address of their contract, in the order of their creation. */
  readonly markets: ReadonlyMap<Address, ChainMarket>
  market(contract: Address): ChainMarket | undefined
  marketOf(marketId: MarketId): ChainMarket | undefined
  putMarket(market: ChainMarket): void
}

/** The contract's decision about one fill. */
export type Verdict = {
  readonly tradeKey: string
  readonly tradeId: string
  readonly fault: FaultySide
  readonly reason: (typeof SETTLEMENT_REASONS)[number]
  readonly buyHash: OrderHash
  readonly sellHash: OrderHash
  readonly size: number
}

export type Executed =
  | { readonly revert: Hex }
  | {
      readonly returned: Hex
      readonly logs: readonly ModelLog[]
      readonly verdicts: readonly Verdict[]
    }

type SettleTuple = Extract<
  DecodeFunctionDataReturnType<typeof settlementAbi>,
  { functionName: 'settle' }
>['args']
type SettleArgs = ReturnType<typeof settleArgs>
type Decoded = {
  readonly args: SettleArgs
  readonly orders: readonly Order[]
  readonly hashes: readonly OrderHash[]
}

const DECODED_MAX = 256

function settleArgs(data: Hex) {
  const decoded = decodedCall(settlementAbi, data)
  if (decoded.functionName !== 'settle') throw new TypeError(`not settle: ${decoded.functionName}`)
  const [orders, fills, permits] = decoded.args as unknown as SettleTuple
  return { orders, fills, permits }
}

export class Contracts {
  readonly at: ChainContracts
  /** Permits that traders signed, by the last word of their signature. */
  readonly permits = new Map<string, SignedPermit>()
  readonly #tokens = new Map<bigint, Token>()
  readonly #ids = new Map<Token, bigint>()
  readonly #hash: (order: Order) => OrderHash
  readonly #keyOf
  readonly oracle: OracleModel
  readonly relay: RelayModel
  readonly #factory: FactoryModel
  /** Cached keys of trades, which are computed often. */
  readonly #keys = new Map<string, string>()
  /** Cached arguments of the newest `settle` calls, because most are simulated several times before they are mined. */
  readonly #decoded = new Map<Hex, Decoded>()

  constructor(at: ChainContracts) {
    this.at = at
    this.oracle = new OracleModel(at)
    this.relay = new RelayModel(at)
    this.#factory = new FactoryModel(at, this.oracle)
    const domain = { chainId: at.chainId, verifyingContract: at.settlement }
    const hasher = makeOrderHasher(domain, loadKeccak().keccak256)
    this.#hash = (order) => `0x${Buffer.from(hasher(order)).toString('hex')}` as OrderHash
    const viem = undefined as never
    const client = { chainId: at.chainId, viem } as unknown as Parameters<
      typeof settlementContract
    >[0]
    this.#keyOf = settlementContract(client, at.settlement).tradeKeyOf
  }

  hashOf(order: Order): OrderHash {
    return this.#hash(order)
  }

  tradeKeyOf(trade: Parameters<ReturnType<typeof settlementContract>['tradeKeyOf']>[0]): string {
    const { tradeId: id, buyOrderHash, sellOrderHash, price, size } = trade
    const name = `${id} ${buyOrderHash} ${sellOrderHash} ${price} ${size}`
    let key = this.#keys.get(name)
    if (key === undefined) {
      key = this.#keyOf(trade)
      this.#keys.set(name, key)
    }
    return key
  }

  /** Registers the ids of a market's tokens. */
  know(marketId: MarketId): void {
    for (const outcome of [0, 1] as const) {
      const id = BigInt(positionIdOf(this.at.stablecoin, marketId, outcome))
      this.#tokens.set(id, `${marketId}/${outcome}`)
      this.#ids.set(`${marketId}/${outcome}`, id)
    }
  }

  #decode(data: Hex): Decoded {
    const known = this.#decoded.get(data)
    if (known !== undefined) return known
    const args = settleArgs(data)
    const orders = args.orders.map(({ order }) => orderOf(order))
    const decoded = { args, orders, hashes: orders.map((order) => this.hashOf(order)) }
    if (this.#decoded.size >= DECODED_MAX) this.#decoded.clear()
    this.#decoded.set(data, decoded)
    return decoded
  }

  /** Runs a transaction, or a call that changes something; undefined if it does nothing. */
  execute(
    to: Address,
    from: Address,
    data: Hex,
    funds: Funds,
    gas = GAS_MAX,
  ): Executed | undefined {
    if (to === this.at.settlement) return this.#settle(from, data, funds)
    if (to === this.at.marketFactory) return this.#factory.execute(from, data, funds)
    const market = funds.market(to)
    return market === undefined
      ? undefined
      : this.oracle.execute(market, from, data, { funds, gas })
  }

  #settle(from: Address, data: Hex, funds: Funds): Executed {
    if (from !== this.at.operator) {
      return { revert: revertData(settlementAbi, 'NotOperator', [from as HexAddress]) }
    }
    if (funds.isPaused) return { revert: revertData(settlementAbi, 'EnforcedPause', []) }
    const { args, orders, hashes } = this.#decode(data)
    const signed = args.orders.map(({ r }, at) => r === hashes[at])
    const filledHere = new Map<OrderHash, number>()
    const settledHere = new Set<string>()
    const logs: ModelLog[] = []
    const verdicts: Verdict[] = []
    const bytes: number[] = []
    let permit = 0
    for (const [index, fill] of args.fills.entries()) {
      if (fill.buy >= orders.length || fill.sell >= orders.length) {
        return { revert: revertData(settlementAbi, 'OrderIndexOutOfRange', [BigInt(index)]) }
      }
      for (; permit < args.permits.length && args.permits[permit]!.fill === index; permit++) {
        this.#tryPermit(args.permits[permit]!, funds, logs)
      }
      const [buy, sell] = [orders[fill.buy]!, orders[fill.sell]!]
      const [buyHash, sellHash] = [hashes[fill.buy]!, hashes[fill.sell]!]
      const [price, size] = [Number(fill.price) as Price, Number(fill.size) as Shares]
      const id = tradeId(buy.marketId, Number(fill.seq), fill.fillIndex)
      const named = { tradeId: id, buyOrderHash: buyHash, sellOrderHash: sellHash, price, size }
      const tradeKey = this.tradeKeyOf(named)
      const found = this.#verdictOf({
        ...{ buy, sell, buyHash, sellHash, price, size, funds },
        isSettled: settledHere.has(tradeKey) || funds.isSettled(tradeKey),
        areSigned: [signed[fill.buy]!, signed[fill.sell]!],
        filled: (hash) => funds.filledOf(hash) + (filledHere.get(hash) ?? 0),
      })
      const [fault, reason] = found
      verdicts.push({ tradeKey, tradeId: id, fault, reason, buyHash, sellHash, size })
      bytes.push((SETTLEMENT_FAULTS.indexOf(fault) << 6) | SETTLEMENT_REASONS.indexOf(reason))
      if (reason !== 'None') {
        const indices = [SETTLEMENT_FAULTS.indexOf(fault), SETTLEMENT_REASONS.indexOf(reason)]
        logs.push(
          logOf(settlementAbi, this.at.settlement, 'TradeRejected', {
            tradeId: tradeKey,
            ...{ buyHash, sellHash, fault: indices[0], reason: indices[1] },
          }),
        )
        continue
      }
      settledHere.add(tradeKey)
      for (const hash of [buyHash, sellHash]) {
        filledHere.set(hash, (filledHere.get(hash) ?? 0) + size)
      }
      const cost = BigInt(costCeil(price, size))
      const { marketId, outcome } = buy
      this.#move(funds, { buyer: buy.trader, seller: sell.trader, cost }, logs)
      this.moveShares(
        funds,
        { from: sell.trader, to: buy.trader, token: `${marketId}/${outcome}`, size: BigInt(size) },
        logs,
      )
      logs.push(
        logOf(settlementAbi, this.at.settlement, 'TradeSettled', {
          ...{ tradeId: tradeKey, buyer: buy.trader, seller: sell.trader, marketId, buyHash },
          ...{ sellHash, outcome, price: BigInt(price), size: BigInt(size), cost },
        }),
      )
    }
    if (permit !== args.permits.length) {
      return { revert: revertData(settlementAbi, 'PermitOutOfOrder', [BigInt(permit)]) }
    }
    const returned = encodeFunctionResult({
      abi: settlementAbi,
      functionName: 'settle',
      result: `0x${Buffer.from(bytes).toString('hex')}`,
    })
    return { returned, logs, verdicts }
  }

  /** Makes the checks of the contract, in the contract's order. */
  #verdictOf(fill: {
    readonly buy: Order
    readonly sell: Order
    readonly buyHash: OrderHash
    readonly sellHash: OrderHash
    readonly price: Price
    readonly size: Shares
    readonly funds: Funds
    readonly isSettled: boolean
    readonly areSigned: readonly [boolean, boolean]
    readonly filled: (hash: OrderHash) => number
  }): readonly [FaultySide, Verdict['reason']] {
    const { buy, sell, price, size, funds } = fill
    if (fill.isSettled) return ['none', 'AlreadySettled']
    if (buy.side !== BUY || sell.side !== SELL) return ['none', 'WrongSide']
    if (buy.marketId !== sell.marketId) return ['none', 'MarketMismatch']
    if (buy.outcome !== sell.outcome) return ['none', 'OutcomeMismatch']
    if (size === 0) return ['none', 'SizeZero']
    if (price <= 0 || price >= ONE) return ['none', 'PriceOutOfRange']
    if (price > buy.price) return ['none', 'PriceAboveBuyLimit']
    if (price < sell.price) return ['none', 'PriceBelowSellLimit']
    const sides = (buyer: boolean, seller: boolean, reason: Verdict['reason']) => {
      if (!buyer && !seller) return undefined
      return [buyer && seller ? 'both' : buyer ? 'buyer' : 'seller', reason] as const
    }
    const isOver = ({ expiration }: Order) => funds.nowSec > expiresAtSec(expiration) + GRACE_SEC
    const [buySigned, sellSigned] = fill.areSigned
    const flaw =
      sides(!buySigned, !sellSigned, 'InvalidSignature') ??
      sides(isOver(buy), isOver(sell), 'OrderExpired') ??
      sides(
        fill.filled(fill.buyHash) + size > buy.size,
        fill.filled(fill.sellHash) + size > sell.size,
        'OrderOverfilled',
      )
    if (flaw !== undefined) return flaw
    if (!funds.isPrepared(buy.marketId)) return ['none', 'MarketUnknown']
    const cost = BigInt(costCeil(price, size))
    const [buyer, seller] = [funds.wallet(buy.trader), funds.wallet(sell.trader)]
    const poor =
      buyer.dollars < cost
        ? 'InsufficientCollateral'
        : buyer.allowance < cost
          ? 'InsufficientAllowance'
          : undefined
    const held = seller.shares.get(`${buy.marketId}/${buy.outcome}`) ?? 0n
    const bare =
      held < BigInt(size)
        ? 'InsufficientShares'
        : seller.isApproved
          ? undefined
          : 'SharesNotApproved'
    if (poor !== undefined && bare !== undefined) return ['both', 'BothUnfunded']
    if (poor !== undefined) return ['buyer', poor]
    return bare === undefined ? ['none', 'None'] : ['seller', bare]
  }

  #tryPermit(
    { owner: hex, value, s }: SettleArgs['permits'][number],
    funds: Funds,
    logs: ModelLog[],
  ): void {
    const known = this.permits.get(s)
    const owner = toAddress(hex)
    const wallet = funds.wallet(owner)
    if (known === undefined || known.owner !== owner || known.value !== value) return
    if (known.nonce !== wallet.permits || funds.nowSec > known.deadlineSec) return
    funds.put(owner, { ...wallet, allowance: value, permits: wallet.permits + 1n })
    logs.push(this.approvalLog(owner, value))
  }

  #move(
    funds: Funds,
    { buyer, seller, cost }: { buyer: Address; seller: Address; cost: bigint },
    logs: ModelLog[],
  ): void {
    const paying = funds.wallet(buyer)
    const allowance = paying.allowance === maxUint256 ? maxUint256 : paying.allowance - cost
    funds.put(buyer, { ...paying, dollars: paying.dollars - cost, allowance })
    const paid = funds.wallet(seller)
    funds.put(seller, { ...paid, dollars: paid.dollars + cost })
    logs.push(this.transferLog(buyer, seller, cost))
  }

  moveShares(
    funds: Funds,
    move: {
      readonly from: Address
      readonly to: Address
      readonly token: Token
      readonly size: bigint
    },
    logs: ModelLog[],
  ): void {
    const { from, to, token, size } = move
    for (const [owner, by] of [
      [from, -size],
      [to, size],
    ] as const) {
      const wallet = funds.wallet(owner)
      const shares = new Map(wallet.shares)
      shares.set(token, (shares.get(token) ?? 0n) + by)
      funds.put(owner, { ...wallet, shares })
    }
    logs.push(this.sharesLog(from, to, token, size))
  }

  sharesLog(from: Address, to: Address, token: Token, value: bigint): ModelLog {
    const args = { operator: this.at.settlement, from, to, id: this.#ids.get(token), value }
    return logOf(conditionalTokensAbi, this.at.conditionalTokens, 'TransferSingle', args)
  }

  transferLog(from: Address, to: Address, value: bigint): ModelLog {
    return logOf(testUSDCAbi, this.at.stablecoin, 'Transfer', { from, to, value })
  }

  approvalLog(owner: Address, value: bigint): ModelLog {
    const spender = this.at.settlement
    return logOf(testUSDCAbi, this.at.stablecoin, 'Approval', { owner, spender, value })
  }

  approvedLog(account: Address, approved: boolean): ModelLog {
    const args = { account, operator: this.at.settlement, approved }
    return logOf(conditionalTokensAbi, this.at.conditionalTokens, 'ApprovalForAll', args)
  }

  /** Answers a view call. */
  read(to: Address, data: Hex, funds: Funds): Hex {
    if (to === this.at.multicall) return this.#readMany(data, funds)
    if (to === this.at.stablecoin) return this.#readStablecoin(data, funds)
    if (to === this.at.conditionalTokens) return this.#readTokens(data, funds)
    if (to === this.at.marketFactory) return this.#factory.read(data, funds)
    const market = funds.market(to)
    if (market !== undefined) return this.#factory.readMarket(market, data)
    if (to !== this.at.settlement) return '0x'
    const { functionName, args } = decodedCall(settlementAbi, data)
    const word = (result: boolean | bigint): Hex =>
      encodeAbiParameters([{ type: 'uint256' }], [BigInt(result)])
    if (functionName === 'isSettled') return word(funds.isSettled(String(args?.[0])))
    if (functionName === 'isOperator') {
      return word(isAddressEqual(args?.[0] as HexAddress, this.at.operator as HexAddress))
    }
    if (functionName === 'settlementGrace') return word(BigInt(GRACE_SEC))
    if (functionName === 'cancelDelay') return word(BigInt(CANCEL_DELAY_SEC))
    if (functionName === 'paused') return word(funds.isPaused)
    throw new TypeError(`the model lacks ${functionName}`)
  }

  #readMany(data: Hex, funds: Funds): Hex {
    const { args } = decodedCall(multicallAbi, data)
    const calls = args?.[0] as readonly { target: HexAddress; callData: Hex }[]
    return encodeFunctionResult({
      abi: multicallAbi,
      functionName: 'aggregate3',
      result: calls.map(({ target, callData }) => ({
        success: true,
        returnData: this.read(toAddress(target), callData, funds),
      })),
    })
  }

  #readStablecoin(data: Hex, funds: Funds): Hex {
    const { functionName, args } = decodedCall(testUSDCAbi, data)
    const wallet = funds.wallet(toAddress(String(args?.[0] ?? this.at.operator)))
    const values: Record<string, bigint> = {
      balanceOf: wallet.dollars,
      allowance: wallet.allowance,
      nonces: wallet.permits,
      // True if the stablecoin can move for every account.
      transferFrom: 1n,
    }
    const value = values[functionName]
    if (value === undefined) throw new TypeError(`the model lacks ${functionName}`)
    return encodeAbiParameters([{ type: 'uint256' }], [value])
  }

  #readTokens(data: Hex, funds: Funds): Hex {
    const { functionName, args } = decodedCall(conditionalTokensAbi, data)
    const word = (value: bigint): Hex => encodeAbiParameters([{ type: 'uint256' }], [value])
    if (functionName === 'getOutcomeSlotCount') {
      return word(funds.isPrepared(String(args?.[0]) as MarketId) ? 2n : 0n)
    }
    if (functionName.startsWith('payout')) {
      const { winner, isPaid } = funds.marketOf(String(args[0]) as MarketId) ?? {}
      if (isPaid !== true) return word(0n)
      if (functionName === 'payoutDenominator') return word(winner === undefined ? 0n : 1n)
      return word(winner === Number(args[1]) ? 1n : 0n)
    }
    const wallet = funds.wallet(toAddress(String([args?.[0]].flat()[0])))
    if (functionName === 'nonces') return word(wallet.tokensNonce)
    if (functionName === 'balanceOfBatch') {
      const ids = args[1] as readonly bigint[]
      const held = ids.map((id) => wallet.shares.get(this.#tokens.get(id) ?? ('' as Token)) ?? 0n)
      return encodeAbiParameters([{ type: 'uint256[]' }], [held])
    }
    if (functionName === 'isApprovedForAll') return word(wallet.isApproved ? 1n : 0n)
    if (functionName === 'balanceOf') {
      const token = this.#tokens.get(args?.[1] as bigint)
      return word(token === undefined ? 0n : (wallet.shares.get(token) ?? 0n))
    }
    throw new TypeError(`the model lacks ${functionName}`)
  }
}

function orderOf(order: SettleArgs['orders'][number]['order']): Order {
  return {
    marketId: order.marketId as string as MarketId,
    trader: toAddress(order.trader),
    side: order.side as Side,
    outcome: order.outcome as Outcome,
    price: Number(order.price) as Price,
    size: Number(order.size) as Shares,
    nonce: String(order.nonce) as Uint64,
    expiration: String(order.expiration) as Uint64,
    makerFeeRecipient: toAddress(order.makerFeeRecipient),
  }
}
