/**
 * Decodes the reason of a revert. Every custom error of our contracts is decoded to its name and arguments; a textual
 * reason is used unchanged.
 */

import { type Abi, BaseError, decodeErrorResult, type Hex, RawContractError } from 'viem'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { marketAbi } from '#contracts/artifacts/Market.abi.ts'
import { marketFactoryAbi } from '#contracts/artifacts/MarketFactory.abi.ts'
import { settlementAbi } from '#contracts/artifacts/Settlement.abi.ts'
import { testUSDCAbi } from '#contracts/artifacts/TestUSDC.abi.ts'

export type Revert = {
  /**
   * Name of the custom error, or its selector if the error is unknown. The name is `Error` for a textual reason and
   * `Panic` for a failed assertion. It is empty if the revert has no data.
   */
  readonly name: string
  readonly args: readonly unknown[]
  /** Reason of the revert as a sentence, for the client that requested the call. */
  readonly words: string
}

const ERRORS: Abi = [
  ...new Map(
    [settlementAbi, conditionalTokensAbi, marketAbi, marketFactoryAbi, testUSDCAbi]
      .flatMap((abi) => (abi as Abi).filter((item) => item.type === 'error'))
      .map((item) => [item.name, item]),
  ).values(),
]

/** Meaning of each error for readers without knowledge of Solidity. */
const WORDS: Readonly<Record<string, (...args: readonly string[]) => string>> = {
  AlreadyInitialized: () => 'the market is already initialised',
  AlreadyResolved: (outcome) =>
    `the market is already resolved: ${outcome === '0' ? 'YES' : 'NO'} won`,
  AssertionActive: () =>
    'the market already has an open proposal: wait for the end of its dispute window',
  AssertionNotTrue: () => 'the oracle rejected the proposal as false',
  CollateralMoveFailed: () =>
    'the stablecoin of the trade could not be transferred: the payer may lack balance or allowance',
  ECDSAInvalidSignature: () => 'the signature is not valid',
  ERC20InsufficientAllowance: (spender, allowance, needed) =>
    `the allowance of ${spender} is ${allowance}, but the transaction needs ${needed}`,
  ERC20InsufficientBalance: (account, balance, needed) =>
    `the balance of ${account} is ${balance}, but the transaction needs ${needed}`,
  ERC2612ExpiredSignature: (deadline) => `the permit expired at ${deadline} (Unix seconds)`,
  ERC2612InvalidSigner: (signer, owner) =>
    `the permit must be signed by ${owner}, but the recovered signer is ${signer}`,
  EpochPending: (from) =>
    `an earlier withdrawal of all orders takes effect at ${from} (Unix seconds): retry after that time`,
  EnforcedPause: () => 'the settlement contract is paused',
  ExpirationNotInFuture: (expiration) => `the expiration ${expiration} is not in the future`,
  InvalidAccountNonce: (account, nonce) =>
    `the signature has a wrong nonce: the next nonce of ${account} is ${nonce}`,
  InvalidInterval: () => 'the interval of a quick market must be from 1 second to 1 day',
  InvalidText: () =>
    'a text of the market (question, description, event, asset, price source or evidence) is empty or too long',
  MarketExists: (market) => `the market ${market} already exists`,
  NoAssertion: () => 'the market has no proposal',
  NotExpired: (from) => `the market cannot be resolved before ${from} (Unix seconds)`,
  NotMaker: (account) => `${account} is not allowed to create markets`,
  NotOperator: (account) => `${account} is not an operator of the contract`,
  NotPayer: (payer) => `${payer} cannot pay the bond: the payer must be the proposer or the caller`,
  NotQuick: () => 'the market is not a quick market',
  NotResolved: () => 'the market is not resolved yet',
  NotTrader: (order) => `the order ${order} belongs to another trader`,
  OpenToOracle: () => 'prices can no longer resolve the market, because the oracle decides it',
  OrderIndexOutOfRange: (fill) => `fill ${fill} refers to an order that is not in the batch`,
  OutcomeNotAsserted: (outcome) => `${outcome === '0' ? 'YES' : 'NO'} is not the proposed outcome`,
  OwnableUnauthorizedAccount: (account) => `${account} is not the owner of the contract`,
  PermitExpired: (deadline) => `the signature expired at ${deadline} (Unix seconds)`,
  PermitOutOfOrder: (permit) =>
    `permits must be sorted by fill: permit ${permit} is out of sequence, or its fill is not in the batch`,
  PermitSignerMismatch: (signer, owner) =>
    `invalid signature: the recovered signer is ${signer}, not ${owner}`,
  PriceZero: () => 'the start price or the end price of the quick market is zero',
  SafeERC20FailedOperation: () => 'the stablecoin rejected the transfer',
  SharesMoveFailed: () =>
    'the shares of the trade could not be transferred: the sender may lack shares or the ' +
    'approval, or the recipient may refuse shares',
  SignatureExpired: (deadline) => `the signature expired at ${deadline} (Unix seconds)`,
  SignerMismatch: (signer, expected) =>
    `invalid signature: the recovered signer is ${signer}, not ${expected}`,
  StartTooFarAhead: (start) =>
    `the start ${start} (Unix seconds) of the quick market is too far in the future`,
  StrikeMismatch: (price, strike) =>
    `the start price ${price} must be the strike ${strike} of the quick market`,
  TooLittleGas: (fill) => `too little gas was left for fill ${fill}`,
  UnknownQuickMarket: (market) => `${market} is not a quick market of this factory`,
}

/** Decodes revert data. Empty data means that the call reverted without a reason. */
export function decodeRevert(data: Hex): Revert {
  if (data === '0x') return { name: '', args: [], words: 'the call reverted without a reason' }
  let decoded: { errorName: string; args?: readonly unknown[] | undefined }
  try {
    decoded = decodeErrorResult({ abi: ERRORS, data }) as typeof decoded
  } catch {
    const signature = data.slice(0, 10)
    return {
      name: signature,
      args: [],
      words: `the call reverted with the unknown error ${signature}`,
    }
  }
  const name = decoded.errorName
  const args = decoded.args ?? []
  if (name === 'Error') return { name, args, words: String(args[0]) }
  if (name === 'Panic')
    return { name, args, words: `the contract failed with panic code ${String(args[0])}` }
  const words = WORDS[name]?.(...args.map(String)) ?? spelled(name, args)
  return { name, args, words }
}

/** Returns the revert in the error of a request; undefined if the request failed for another reason. */
export function revertOf(error: unknown): Revert | undefined {
  if (!(error instanceof BaseError)) return undefined
  const raw = error.walk((inner) => {
    const { data } = inner as { data?: unknown }
    return inner instanceof RawContractError || dataOf(data) !== undefined
  })
  const data = dataOf((raw as { data?: unknown } | null)?.data)
  if (data !== undefined) return decodeRevert(data)
  const reverted = /execution reverted|reverted without|VM Exception|always failing transaction/i
  const { details = '', message } = error as { details?: string; message: string }
  if (!reverted.test(details) && !reverted.test(message)) return undefined
  return { name: '', args: [], words: 'the call reverted without a reason' }
}

function dataOf(data: unknown): Hex | undefined {
  const inner = typeof data === 'object' && data !== null ? (data as { data?: unknown }).data : data
  return typeof inner === 'string' && /^0x(?:[0-9a-fA-F]{2})*$/.test(inner)
    ? (inner as Hex)
    : undefined
}

function spelled(name: string, args: readonly unknown[]): string {
  return args.length === 0 ? name : `${name}(${args.map(String).join(', ')})`
}
