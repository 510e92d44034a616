/**
 * Models the rules of our contracts without an EVM: the settlement contract, the stablecoin, the outcome tokens and the
 * multicall. The model checks no keys. An order counts as signed if the first word of its signature is its hash. A
 * permit counts as signed if `permits` has an entry for the last word of its signature.
 */

import {
  type Abi,
  type DecodeFunctionDataReturnType,
  encodeAbiParameters,
  encodeFunctionResult,
  type Hex,
  type Address as HexAddress,
  isAddressEqual,
  maxUint256,
  toFunctionSelector,
} from 'viem'
import {
  SETTLEMENT_FAULTS,
  SETTLEMENT_REASONS,
  settlementContract,
} from '#chain/settlement-contract.ts'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { delegatesAbi } from '#contracts/artifacts/Delegates.abi.ts'
import { marketAbi } from '#contracts/artifacts/Market.abi.ts'
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
import { costCeil, type Price, type Shares } from '#domain/money.ts'
import type { Order, Outcome, Side } from '#domain/order.ts'
import { makeOrderHasher } from '#domain/order-hash.ts'
import type { FaultySide } from '#domain/trade.ts'
import { loadKeccak } from '#verify/keccak.ts'
import { decodedCall, logOf, revertData } from './abi.ts'
import { type ChainMarket, FactoryModel, ReadReverts } from './factory.ts'
import { verdictOf } from './fill-verdict.ts'
import { OracleModel } from './oracle-model.ts'
import { aggregated, isAggregated, RelayModel } from './relay-model.ts'
import { NO_RIGHTS, type Rights, RightsModel } from './rights-model.ts'
import { readStablecoin, TokenIds } from './token-reads.ts'

export const GRACE_SEC = 3_600
const CANCEL_DELAY_SEC = 7_200
/** Names of functions that change the state. The exchange simulates their calls before it sends them. */
const CHANGING =
  /^(settle|settleMarket|reportPayouts|proposeResolution|permit|setApprovalForAllWithPermit|redeemPositionsWithPermit|cancel\w+WithPermit|setDelegateWithPermit)$/
/** Gas limit of a call that sets no limit. */
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
  /** Delays of the settlement contract in seconds; those of production if undefined. */
  readonly delays?: { readonly graceSec: number; readonly cancelDelaySec: number }
}

export type Token = `${MarketId}/${Outcome}`

/** Funds of one account, and its approvals for the settlement contract. */
export type Wallet = {
  readonly dollars: bigint
  readonly allowance: bigint
  readonly isApproved: boolean
  /** Nonce of its next permit. */
  readonly permits: bigint
  /** Nonce of the account's next signature for the outcome tokens. */
  readonly tokensNonce: bigint
  readonly shares: ReadonlyMap<Token, bigint>
  readonly rights: Rights
}

export const EMPTY_WALLET: Wallet = {
  ...{
    dollars: 0n,
    allowance: 0n,
    isApproved: false,
    permits: 0n,
    tokensNonce: 0n,
    shares: new Map(),
    rights: NO_RIGHTS,
  },
}

/** A signed permit. The model finds permits by the last word of their signature. */
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
  /** Returns the time from which an order is void because its trader withdrew it by its hash; 0 if not withdrawn. */
  cancelledFromSec(orderHash: OrderHash): number
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
const SELECTOR_CHARS = 10

/** Selectors of the functions that change something. */
const CHANGES: ReadonlySet<string> = new Set(
  [settlementAbi, testUSDCAbi, conditionalTokensAbi, marketAbi, delegatesAbi]
    .flatMap((abi) => abi as Abi)
    .flatMap((item) =>
      item.type === 'function' && CHANGING.test(item.name) ? [toFunctionSelector(item)] : [],
    ),
)

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
  readonly #tokens: TokenIds
  readonly #hash: (order: Order) => OrderHash
  readonly #keyOf
  readonly oracle: OracleModel
  readonly relay: RelayModel
  readonly rights: RightsModel
  readonly #graceSec: number
  readonly #cancelDelaySec: number
  readonly #factory: FactoryModel
  /** Cached keys of trades, which are computed often. */
  readonly #keys = new Map<string, string>()
  /** Cached arguments of the newest `settle` calls, because most are simulated several times before they are mined. */
  readonly #decoded = new Map<Hex, Decoded>()

  constructor(at: ChainContracts) {
    this.at = at
    const { graceSec = GRACE_SEC, cancelDelaySec = CANCEL_DELAY_SEC } = at.delays ?? {}
    this.#graceSec = graceSec
    this.#cancelDelaySec = cancelDelaySec
    this.relay = new RelayModel(at)
    this.oracle = new OracleModel(at, this.relay)
    this.rights = new RightsModel({
      ...{ at, graceSec, cancelDelaySec, isSigned: this.relay.isSigned },
      signerOf: (s) => this.relay.signed.get(s)?.owner,
      hashOf: (order) => this.hashOf(order),
      ordersIn: (orders) => (orders as readonly OrderTuple[]).map(orderOf),
    })
    this.#factory = new FactoryModel(at, this.oracle)
    this.#tokens = new TokenIds(at)
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
    this.#tokens.know(marketId)
  }

  /** Returns whether a call changes the state, so that the model must execute it and not only read. */
  isChange(to: Address, data: Hex): boolean {
    if (to === this.at.multicall)
      return isAggregated(data, (target, call) => this.isChange(target, call))
    return CHANGES.has(data.slice(0, SELECTOR_CHARS))
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

  /**
   * Executes a transaction, or a call that changes something. Returns undefined if no contract has the address `to`.
   */
  execute(
    to: Address,
    from: Address,
    data: Hex,
    funds: Funds,
    gas = GAS_MAX,
  ): Executed | undefined {
    if (to === this.at.settlement) {
      return this.rights.withdraw(data, funds) ?? this.#settle(from, data, funds)
    }
    if (to === this.at.marketFactory) return this.#factory.execute(from, data, funds)
    if (to === this.at.stablecoin) return this.relay.permit(data, funds)
    if (to === this.at.conditionalTokens) return this.relay.tokens(data, funds)
    if (to === this.rights.delegates) return this.rights.setDelegate(data, funds)
    if (to === this.at.multicall) {
      return aggregated(data, funds, (target, call, within) =>
        this.execute(target, this.at.multicall, call, within),
      )
    }
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
    const signed = args.orders.map(
      ({ r, vs }, at) => r === hashes[at] && this.rights.isSignedFor(orders[at]!, vs, funds),
    )
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
      const found = verdictOf({
        ...{ buy, sell, buyHash, sellHash, price, size, funds, graceSec: this.#graceSec },
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
    const args = { operator: this.at.settlement, from, to, id: this.#tokens.idOf(token), value }
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
    if (to === this.at.stablecoin) return readStablecoin(this.at, data, funds)
    if (to === this.at.conditionalTokens) return this.#tokens.read(data, funds)
    if (to === this.rights.delegates) return this.rights.readDelegates(data, funds)
    if (to === this.at.marketFactory) return this.#factory.read(data, funds)
    const market = funds.market(to)
    if (market !== undefined) return this.#factory.readMarket(market, data, funds)
    if (to !== this.at.settlement) return '0x'
    const { functionName, args } = decodedCall(settlementAbi, data)
    const withdrawn = this.rights.readWithdrawals(functionName, args, funds)
    if (withdrawn !== undefined) return withdrawn
    const word = (result: boolean | bigint): Hex =>
      encodeAbiParameters([{ type: 'uint256' }], [BigInt(result)])
    if (functionName === 'isSettled') return word(funds.isSettled(String(args?.[0])))
    if (functionName === 'isOperator') {
      return word(isAddressEqual(args?.[0] as HexAddress, this.at.operator as HexAddress))
    }
    if (functionName === 'settlementGrace') return word(BigInt(this.#graceSec))
    if (functionName === 'cancelDelay') return word(BigInt(this.#cancelDelaySec))
    if (functionName === 'paused') return word(funds.isPaused)
    throw new TypeError(`the model lacks ${functionName}`)
  }

  #readMany(data: Hex, funds: Funds): Hex {
    const { args } = decodedCall(multicallAbi, data)
    const calls = args?.[0] as readonly { target: HexAddress; callData: Hex }[]
    return encodeFunctionResult({
      abi: multicallAbi,
      functionName: 'aggregate3',
      result: calls.map(({ target, callData }) => {
        try {
          return { success: true, returnData: this.read(toAddress(target), callData, funds) }
        } catch (error) {
          if (!(error instanceof ReadReverts)) throw error
          return { success: false, returnData: error.revert }
        }
      }),
    })
  }
}

type OrderTuple = SettleArgs['orders'][number]['order']

function orderOf(order: OrderTuple): Order {
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
