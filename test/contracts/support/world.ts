/**
 * A chain with all contracts, traders with funds, and the functions of the contract tests: `buy`, `sell`, `settle`,
 * `permit`, …
 */
import assert from 'node:assert/strict'
import {
  type Abi,
  BaseError,
  type ContractFunctionArgs,
  type ContractFunctionName,
  type ContractFunctionReturnType,
  ContractFunctionRevertedError,
  decodeEventLog,
  getAddress,
  type Hex,
  hashTypedData,
  parseEventLogs,
  parseSignature,
  type TransactionReceipt,
} from 'viem'
import type { PrivateKeyAccount } from 'viem/accounts'
import { SETTLEMENT_REASONS } from '#chain/settlement-contract.ts'
import type { Contract } from '#devnet/artifact.ts'
import { type Deployer, type Deployment, deployAll, type Settings } from '#devnet/deploy.ts'
import { DEVNET_TERMS } from '#devnet/seed.ts'
import { delegatesOf } from '#domain/delegate.ts'
import { toAddress } from '#domain/ids.ts'
import {
  APPROVAL_FOR_ALL_TYPES,
  CANCEL_ALL_BEFORE_TYPES,
  CANCEL_ORDERS_TYPES,
  conditionalTokensDomain,
  delegatesDomain,
  marketDomain,
  ORDER_TYPES,
  PERMIT_TYPES,
  PROPOSE_RESOLUTION_TYPES,
  REDEEM_POSITIONS_TYPES,
  SET_DELEGATE_TYPES,
  SETTLE_MARKET_TYPES,
  settlementDomain,
  stablecoinDomain,
} from '#domain/typed-data.ts'
import { delegatesAbi } from '../../../contracts/artifacts/Delegates.abi.ts'
import { marketAbi } from '../../../contracts/artifacts/Market.abi.ts'
import { type Chain, startChain } from './chain.ts'

export const ZERO_BYTES32: Hex = `0x${'0'.repeat(64)}`
export const ZERO: Hex = `0x${'0'.repeat(40)}`
export const UNIT = 1_000_000n
export const MAX_UINT256 = 2n ** 256n - 1n

export const YES = 0
export const NO = 1

export const FAULTS = ['None', 'Buyer', 'Seller', 'Both'] as const
/** The exchange's own list of rejection reasons, which the tests compare with the contract's. */
export const REASONS = SETTLEMENT_REASONS
export type Fault = (typeof FAULTS)[number]
export type Reason = (typeof REASONS)[number]

export type Order = {
  marketId: Hex
  trader: Hex
  side: number
  outcome: number
  price: bigint
  size: bigint
  nonce: bigint
  expiration: bigint
  makerFeeRecipient: Hex
}
export type SignedOrder = { order: Order; r: Hex; vs: Hex }
export type Fill = {
  buy: number
  sell: number
  seq: bigint
  fillIndex: number
  price: bigint
  size: bigint
}
/** A permit that the contract submits just before the fill with the index `fill`. */
export type Permit = {
  fill: number
  owner: Hex
  value: bigint
  deadline: bigint
  v: number
  r: Hex
  s: Hex
}
export type Verdict =
  | { settled: true; tradeId: Hex; cost: bigint }
  | { settled: false; tradeId: Hex; fault: Fault; reason: Reason }

export type Market = Contract<typeof marketAbi> & { readonly id: Hex; readonly expiration: bigint }

/** Limits of a delegation, which only the exchange enforces. */
export type Limits = {
  readonly maxOrderSize: bigint
  readonly maxOpenNotional: bigint
  readonly markets: readonly Hex[]
}
export const UNLIMITED: Limits = { maxOrderSize: 0n, maxOpenNotional: 0n, markets: [] }

export const SETTINGS = DEVNET_TERMS

export type World = Awaited<ReturnType<typeof startWorld>>

/**
 * Starts a chain with all contracts. Accounts are as on the devnet: #0 owns the contracts and settles, #1
 * relays, #2 operates quick markets, #3 makes markets.
 */
export async function startWorld(overrides: Partial<Settings> & { chainId?: number } = {}) {
  const chain = await startChain(
    overrides.chainId === undefined ? {} : { chainId: overrides.chainId },
  )
  return worldOn(chain, overrides, deployAll.bind(undefined, chain as unknown as Deployer))
}

/** Deploys all contracts on an existing chain. */
export async function worldOn<C extends Chain>(
  chain: C,
  overrides: Partial<Settings>,
  deploy: (settings: Settings) => Promise<Deployment>,
) {
  const owner = chain.account(0)
  const relayer = chain.account(1)
  const quickOperator = chain.account(2)
  const maker = chain.account(3)
  const ann = chain.account(10)
  const bob = chain.account(11)
  const carol = chain.account(12)
  const deployment = await deploy({
    ...SETTINGS,
    owner,
    settlementOperator: owner.address,
    marketOperator: quickOperator.address,
    maker: maker.address,
    ...overrides,
  })
  const words = wordsOf(chain, deployment)
  return {
    chain,
    ...deployment,
    owner,
    relayer,
    quickOperator,
    maker,
    ann,
    bob,
    carol,
    ...words,
  }
}

function wordsOf(chain: Chain, deployment: Deployment) {
  const { collateral, conditionalTokens, settlement, factory } = deployment
  const delegates = {
    address: getAddress(delegatesOf(toAddress(settlement.address))),
    abi: delegatesAbi,
  }
  const owner = chain.account(0)
  const maker = chain.account(3)
  let salt = 0n

  const read = <A extends Abi, F extends ContractFunctionName<A, 'view' | 'pure'>>(
    contract: Contract<A>,
    functionName: F,
    args: ContractFunctionArgs<A, 'view' | 'pure', F>,
  ) =>
    chain.publicClient.readContract({
      address: contract.address,
      abi: contract.abi as Abi,
      functionName: functionName as string,
      args: args as readonly unknown[],
    }) as Promise<ContractFunctionReturnType<A, 'view' | 'pure', F>>

  const balance = (address: Hex) => read(collateral, 'balanceOf', [address])

  const positionId = async (marketId: Hex, outcome: number) => {
    const collection = await read(conditionalTokens, 'getCollectionId', [
      ZERO_BYTES32,
      marketId,
      1n << BigInt(outcome),
    ])
    return read(conditionalTokens, 'getPositionId', [collateral.address, collection])
  }

  const shares = async (address: Hex, marketId: Hex, outcome: number) =>
    read(conditionalTokens, 'balanceOf', [address, await positionId(marketId, outcome)])

  const createMarket = async (
    fixed: { expiration?: bigint; complementary?: boolean } = {},
  ): Promise<Market> => {
    const expiration = fixed.expiration ?? (await chain.now()) + 86_400n
    salt += 1n
    const args = [`Will it rain on day ${salt}?`, 'By the city gauge.', 3, expiration] as const
    const [address, id] = await read(factory, 'predictMarket', [maker.address, ...args])
    const create = fixed.complementary ? 'createComplementaryMarket' : 'createMarket'
    await chain.send(maker, factory, create, args)
    return { address, abi: marketAbi, id, expiration }
  }

  /** Mints collateral, gives all approvals, and splits some of the collateral into outcome tokens. */
  const fund = async (
    account: PrivateKeyAccount,
    amounts: { collateral?: bigint; shares?: bigint; market?: Hex },
  ) => {
    const split = amounts.shares ?? 0n
    const minted = (amounts.collateral ?? 0n) + split
    if (minted > 0n) await chain.send(owner, collateral, 'mint', [account.address, minted])
    await chain.send(account, collateral, 'approve', [settlement.address, MAX_UINT256])
    await chain.send(account, conditionalTokens, 'setApprovalForAll', [settlement.address, true])
    if (split > 0n && amounts.market !== undefined) {
      await chain.send(account, collateral, 'approve', [conditionalTokens.address, split])
      await chain.send(account, conditionalTokens, 'splitPosition', [
        collateral.address,
        ZERO_BYTES32,
        amounts.market,
        [1n, 2n],
        split,
      ])
    }
  }

  const order = async (
    side: number,
    account: PrivateKeyAccount,
    marketId: Hex,
    terms: Partial<Order> & { price: bigint; size: bigint },
  ): Promise<SignedOrder> => {
    salt += 1n
    return sign(account, {
      marketId,
      trader: account.address,
      side,
      outcome: YES,
      nonce: salt,
      expiration: (await chain.now()) + 3_600n,
      makerFeeRecipient: ZERO,
      ...terms,
    })
  }

  const typedOrder = (message: Order) => ({
    domain: settlementDomain(chain.id, toAddress(settlement.address)),
    types: ORDER_TYPES,
    primaryType: 'Order' as const,
    message,
  })

  const sign = async (account: PrivateKeyAccount, message: Order): Promise<SignedOrder> => ({
    order: message,
    ...compact(await account.signTypedData(typedOrder(message))),
  })

  const hashOrder = (message: Order) => hashTypedData(typedOrder(message))

  const verdicts = (receipt: TransactionReceipt): Verdict[] =>
    parseEventLogs({ abi: settlement.abi, logs: receipt.logs }).flatMap((log): Verdict[] => {
      if (log.eventName === 'TradeSettled') {
        return [{ settled: true, tradeId: log.args.tradeId, cost: log.args.cost }]
      }
      if (log.eventName === 'TradeRejected') {
        const { tradeId, fault, reason } = log.args
        return [{ settled: false, tradeId, fault: FAULTS[fault]!, reason: REASONS[reason]! }]
      }
      return []
    })

  const settle = async (
    orders: SignedOrder[],
    fills: Fill[],
    permits: Permit[] = [],
  ): Promise<Verdict[]> =>
    verdicts(await chain.send(owner, settlement, 'settle', [orders, fills, permits]))

  /** Settles one trade between two orders and returns the result. */
  const trade = async (
    buy: SignedOrder,
    sell: SignedOrder,
    terms: Partial<Fill> = {},
  ): Promise<Verdict> => {
    salt += 1n
    let size = buy.order.size
    if (sell.order.size < size) size = sell.order.size
    const fill = { buy: 0, sell: 1, seq: salt, fillIndex: 0, price: sell.order.price, size }
    const [verdict] = await settle([buy, sell], [{ ...fill, ...terms }])
    assert.ok(verdict)
    return verdict
  }

  const usdcPermit = async (
    account: PrivateKeyAccount,
    spender: Hex,
    value: bigint,
    overrides: { deadline?: bigint; nonce?: bigint } = {},
  ) => {
    const deadline = overrides.deadline ?? (await chain.now()) + 3_600n
    const nonce = overrides.nonce ?? (await read(collateral, 'nonces', [account.address]))
    const signature = await account.signTypedData({
      domain: stablecoinDomain(chain.id, {
        address: toAddress(collateral.address),
        domainName: 'USD Coin',
        domainVersion: '1',
      }),
      types: PERMIT_TYPES,
      primaryType: 'Permit',
      message: { owner: account.address, spender, value, nonce, deadline },
    })
    return { fill: 0, owner: account.address, value, deadline, ...split(signature) }
  }

  /** The arguments of `cancelOrdersWithPermit`. */
  const signCancellation = async (
    account: PrivateKeyAccount,
    orders: Order[],
    overrides: { trader?: Hex; deadline?: bigint; chainId?: number; contract?: Hex } = {},
  ) => {
    const trader = overrides.trader ?? account.address
    const deadline = overrides.deadline ?? (await chain.now()) + 3_600n
    const signature = await account.signTypedData({
      domain: settlementDomain(
        overrides.chainId ?? chain.id,
        toAddress(overrides.contract ?? settlement.address),
      ),
      types: CANCEL_ORDERS_TYPES,
      primaryType: 'CancelOrders',
      message: { trader, orderHashes: orders.map(hashOrder), deadline },
    })
    const { v, r, s } = split(signature)
    return [trader, orders, deadline, v, r, s] as const
  }

  /** The arguments of `cancelAllBeforeWithPermit`. */
  const signEpoch = async (
    account: PrivateKeyAccount,
    nonce: bigint,
    overrides: { trader?: Hex; deadline?: bigint; chainId?: number; contract?: Hex } = {},
  ) => {
    const trader = overrides.trader ?? account.address
    const deadline = overrides.deadline ?? (await chain.now()) + 3_600n
    const signature = await account.signTypedData({
      domain: settlementDomain(
        overrides.chainId ?? chain.id,
        toAddress(overrides.contract ?? settlement.address),
      ),
      types: CANCEL_ALL_BEFORE_TYPES,
      primaryType: 'CancelAllBefore',
      message: { trader, nonce, deadline },
    })
    const { v, r, s } = split(signature)
    return [trader, nonce, deadline, v, r, s] as const
  }

  /** The arguments of `setDelegateWithPermit`. */
  const signDelegation = async (
    account: PrivateKeyAccount,
    delegate: Hex,
    until: bigint,
    overrides: {
      account?: Hex
      limits?: Limits
      deadline?: bigint
      nonce?: bigint
      chainId?: number
      contract?: Hex
    } = {},
  ) => {
    const owner = overrides.account ?? account.address
    const limits = overrides.limits ?? UNLIMITED
    const deadline = overrides.deadline ?? (await chain.now()) + 3_600n
    const nonce = overrides.nonce ?? (await read(delegates, 'nonces', [owner]))
    const signature = await account.signTypedData({
      domain: delegatesDomain(
        overrides.chainId ?? chain.id,
        toAddress(overrides.contract ?? delegates.address),
      ),
      types: SET_DELEGATE_TYPES,
      primaryType: 'SetDelegate',
      message: { account: owner, delegate, until, ...limits, nonce, deadline },
    })
    const { v, r, s } = split(signature)
    return [owner, delegate, until, limits, deadline, v, r, s] as const
  }

  const signApproval = async (
    account: PrivateKeyAccount,
    operator: Hex,
    approved: boolean,
    overrides: { deadline?: bigint; nonce?: bigint; chainId?: number; contract?: Hex } = {},
  ) => {
    const deadline = overrides.deadline ?? (await chain.now()) + 3_600n
    const nonce = overrides.nonce ?? (await read(conditionalTokens, 'nonces', [account.address]))
    const signature = await account.signTypedData({
      domain: conditionalTokensDomain(
        overrides.chainId ?? chain.id,
        toAddress(overrides.contract ?? conditionalTokens.address),
      ),
      types: APPROVAL_FOR_ALL_TYPES,
      primaryType: 'ApprovalForAll',
      message: { owner: account.address, operator, approved, nonce, deadline },
    })
    return { deadline, ...split(signature) }
  }

  const signRedemption = async (
    account: PrivateKeyAccount,
    conditionId: Hex,
    overrides: { deadline?: bigint; nonce?: bigint; indexSets?: bigint[] } = {},
  ) => {
    const deadline = overrides.deadline ?? (await chain.now()) + 3_600n
    const nonce = overrides.nonce ?? (await read(conditionalTokens, 'nonces', [account.address]))
    const indexSets = overrides.indexSets ?? [1n, 2n]
    const signature = await account.signTypedData({
      domain: conditionalTokensDomain(chain.id, toAddress(conditionalTokens.address)),
      types: REDEEM_POSITIONS_TYPES,
      primaryType: 'RedeemPositions',
      message: {
        owner: account.address,
        collateralToken: collateral.address,
        parentCollectionId: ZERO_BYTES32,
        conditionId,
        indexSets,
        nonce,
        deadline,
      },
    })
    const { v, r, s } = split(signature)
    return [
      account.address,
      collateral.address,
      ZERO_BYTES32,
      conditionId,
      indexSets,
      deadline,
      v,
      r,
      s,
    ] as const
  }

  const signProposal = async (
    account: PrivateKeyAccount,
    market: Market,
    outcome: boolean,
    overrides: { deadline?: bigint; nonce?: bigint; market?: Hex } = {},
  ) => {
    const deadline = overrides.deadline ?? (await chain.now()) + 3_600n
    const nonce = overrides.nonce ?? (await read(market, 'nonces', [account.address]))
    const signature = await account.signTypedData({
      domain: marketDomain(chain.id, toAddress(overrides.market ?? market.address)),
      types: PROPOSE_RESOLUTION_TYPES,
      primaryType: 'ProposeResolution',
      message: { proposer: account.address, outcome, nonce, deadline },
    })
    const { v, r, s } = split(signature)
    return [account.address, outcome, deadline, v, r, s] as const
  }

  const signSettlement = async (
    account: PrivateKeyAccount,
    market: Market,
    winningOutcome: number,
    overrides: { deadline?: bigint; nonce?: bigint } = {},
  ) => {
    const deadline = overrides.deadline ?? (await chain.now()) + 3_600n
    const nonce = overrides.nonce ?? (await read(market, 'nonces', [account.address]))
    const signature = await account.signTypedData({
      domain: marketDomain(chain.id, toAddress(market.address)),
      types: SETTLE_MARKET_TYPES,
      primaryType: 'SettleMarket',
      message: { settler: account.address, winningOutcome, nonce, deadline },
    })
    const { v, r, s } = split(signature)
    return [account.address, winningOutcome, deadline, v, r, s] as const
  }

  /** Signs a permit for the market's bond, with the key of the account that pays the bond. */
  const bondPermit = async (payer: PrivateKeyAccount, market: Market) => {
    const permit = await usdcPermit(payer, market.address, await read(market, 'bond', []))
    const { deadline, v, r, s } = permit
    return { payer: payer.address, deadline, v, r, s }
  }

  return {
    delegates,
    read,
    balance,
    positionId,
    shares,
    createMarket,
    fund,
    sign,
    hashOrder,
    buy: order.bind(undefined, 0),
    sell: order.bind(undefined, 1),
    settle,
    verdicts,
    trade,
    usdcPermit,
    signCancellation,
    signEpoch,
    signDelegation,
    signApproval,
    signRedemption,
    signProposal,
    signSettlement,
    bondPermit,
  }
}

export function split(signature: Hex): { v: number; r: Hex; s: Hex } {
  const { r, s, yParity } = parseSignature(signature)
  return { v: 27 + yParity, r, s }
}

/** Returns a signature in the form of ERC-2098: the parity is the top bit of s. */
export function compact(signature: Hex): { r: Hex; vs: Hex } {
  const { r, s, yParity } = parseSignature(signature)
  const vs = BigInt(s) | (BigInt(yParity) << 255n)
  return { r, vs: `0x${vs.toString(16).padStart(64, '0')}` }
}

/** Returns the names and arguments of a contract's events in a receipt, in order. */
export function eventsOf(receipt: TransactionReceipt, contract: Contract) {
  return receipt.logs
    .filter((log) => log.address.toLowerCase() === contract.address.toLowerCase())
    .map((log) => {
      const { eventName, args } = decodeEventLog({ abi: contract.abi, ...log })
      return { eventName, args }
    })
}

/** Asserts that a call reverts, with the custom error or the reason `expected`. */
export async function assertReverts(
  call: Promise<unknown>,
  expected: string,
  args?: readonly unknown[],
): Promise<void> {
  const error = await call.then(
    () => assert.fail(`expected a revert with ${expected}, but the call succeeded`),
    (thrown: unknown) => thrown,
  )
  const revert =
    error instanceof BaseError
      ? error.walk((inner) => inner instanceof ContractFunctionRevertedError)
      : undefined
  if (!(revert instanceof ContractFunctionRevertedError)) throw error
  const told = revert.data?.errorName === 'Error' ? revert.reason : revert.data?.errorName
  assert.equal(told ?? revert.reason ?? revert.signature, expected)
  if (args !== undefined) assert.deepEqual(revert.data?.args, args)
}
