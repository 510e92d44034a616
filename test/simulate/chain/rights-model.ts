/**
 * Models withdrawals and delegates without an EVM: the part of the settlement contract that voids orders, and the
 * contract of delegations. A withdrawal or revocation affects trades only after a delay. From then on, no trade settles
 * if an order was withdrawn or its delegate was revoked.
 */

import { encodeAbiParameters, type Hex, isAddressEqual } from 'viem'
import { delegatesAbi } from '#contracts/artifacts/Delegates.abi.ts'
import { settlementAbi } from '#contracts/artifacts/Settlement.abi.ts'
import { delegatesOf } from '#domain/delegate.ts'
import { type Address, type OrderHash, toAddress, ZERO_ADDRESS } from '#domain/ids.ts'
import type { Order } from '#domain/order.ts'
import { decodedCall, logOf, revertData } from './abi.ts'
import type { ChainContracts, Executed, Funds, ModelLog, Wallet } from './contracts.ts'

/** Decisions of an account about its orders, delegates and bonds. */
export type Rights = {
  /** By order hash: the time from which a withdrawn order is void. */
  readonly cancelled: ReadonlyMap<OrderHash, number>
  /**
   * Orders with a nonce below `nonce` are void. From the time `nextFromSec`, so are orders with a nonce below `next`.
   */
  readonly epoch: { readonly nonce: bigint; readonly next: bigint; readonly nextFromSec: number }
  /** Nonce of its next delegation by signature. */
  readonly delegations: bigint
  readonly delegates: ReadonlyMap<
    Address,
    { readonly untilSec: number; readonly settlesUntilSec: number }
  >
  /** Nonce of the account's next signature at each market. */
  readonly marketNonces: ReadonlyMap<Address, bigint>
  /** Allowances for contracts other than settlement. */
  readonly allowances: ReadonlyMap<Address, bigint>
}

export const NO_RIGHTS: Rights = {
  ...{ cancelled: new Map(), epoch: { nonce: 0n, next: 0n, nextFromSec: 0 }, delegations: 0n },
  ...{ delegates: new Map(), marketNonces: new Map(), allowances: new Map() },
}

/** Returns whether this account signed something with this nonce; `s` is the last word of the signature. */
type SignedBy = (s: string, by: Address, nonce: bigint) => boolean

type Ports = {
  readonly at: ChainContracts
  readonly isSigned: SignedBy
  /** Returns the signer of a message without a nonce. */
  readonly signerOf: (s: string) => Address | undefined
  readonly hashOf: (order: Order) => OrderHash
  readonly ordersIn: (orders: unknown) => readonly Order[]
  readonly graceSec: number
  readonly cancelDelaySec: number
}

const done = (logs: readonly ModelLog[]): Executed => ({ returned: '0x', logs, verdicts: [] })
const word = (value: boolean | bigint | number): Hex =>
  encodeAbiParameters([{ type: 'uint256' }], [BigInt(value)])

export class RightsModel {
  readonly #ports: Ports
  readonly delegates: Address

  constructor(ports: Ports) {
    this.#ports = ports
    this.delegates = delegatesOf(ports.at.settlement)
  }

  /** Executes a transaction or a call that withdraws orders; returns undefined for any other function. */
  withdraw(data: Hex, funds: Funds): Executed | undefined {
    const { functionName, args } = decodedCall(settlementAbi, data)
    const isOfOrders = functionName === 'cancelOrdersWithPermit'
    if (!isOfOrders && functionName !== 'cancelAllBeforeWithPermit') return undefined
    const [trader, deadline, s] = [toAddress(String(args[0])), args[2] as bigint, String(args[5])]
    if (Number(deadline) < funds.nowSec) {
      return { revert: revertData(settlementAbi, 'PermitExpired', [deadline]) }
    }
    const signer = this.#ports.signerOf(s)
    const isCurrent = signer !== undefined && isOfOrders && isCurrentAt(funds, trader, signer)
    if (signer !== trader && !isCurrent) {
      const named = [signer ?? ZERO_ADDRESS, trader]
      return { revert: revertData(settlementAbi, 'PermitSignerMismatch', named) }
    }
    if (isOfOrders) return this.#cancelOrders(trader, this.#ports.ordersIn(args[1]), funds)
    return this.#cancelAllBefore(trader, args[1] as bigint, funds)
  }

  #cancelOrders(trader: Address, orders: readonly Order[], funds: Funds): Executed {
    const effectiveAt = funds.nowSec + this.#ports.cancelDelaySec
    const wallet = funds.wallet(trader)
    const cancelled = new Map(wallet.rights.cancelled)
    const logs: ModelLog[] = []
    for (const order of orders) {
      const orderHash = this.#ports.hashOf(order)
      if (order.trader !== trader) {
        return { revert: revertData(settlementAbi, 'NotTrader', [orderHash]) }
      }
      if (cancelled.has(orderHash)) continue
      cancelled.set(orderHash, effectiveAt)
      const named = { orderHash, trader, effectiveAt: BigInt(effectiveAt) }
      logs.push(logOf(settlementAbi, this.#ports.at.settlement, 'OrderCancelled', named))
    }
    putRights(funds, trader, wallet, { cancelled })
    return done(logs)
  }

  #cancelAllBefore(trader: Address, before: bigint, funds: Funds): Executed {
    const wallet = funds.wallet(trader)
    const { next, nextFromSec } = wallet.rights.epoch
    if (before <= next) return done([])
    if (funds.nowSec < nextFromSec) {
      return { revert: revertData(settlementAbi, 'EpochPending', [BigInt(nextFromSec)]) }
    }
    const effectiveAt = funds.nowSec + this.#ports.cancelDelaySec
    const epoch = { nonce: next, next: before, nextFromSec: effectiveAt }
    putRights(funds, trader, wallet, { epoch })
    const named = { trader, beforeNonce: before, effectiveAt: BigInt(effectiveAt) }
    return done([logOf(settlementAbi, this.#ports.at.settlement, 'AllOrdersCancelled', named)])
  }

  /** Executes a transaction or a call to the contract of delegations. */
  setDelegate(data: Hex, funds: Funds): Executed {
    const { functionName, args } = decodedCall(delegatesAbi, data)
    if (functionName !== 'setDelegateWithPermit') {
      throw new TypeError(`the model lacks ${functionName}`)
    }
    const [account, delegate] = [toAddress(String(args[0])), toAddress(String(args[1]))]
    const [until, limits, deadline] = [args[2] as bigint, args[3], args[4] as bigint]
    if (Number(deadline) < funds.nowSec) {
      return { revert: revertData(delegatesAbi, 'PermitExpired', [deadline]) }
    }
    const wallet = funds.wallet(account)
    const { delegations, delegates: before } = wallet.rights
    if (!this.#ports.isSigned(String(args[7]), account, delegations)) {
      return { revert: revertData(delegatesAbi, 'PermitNotSigned', [account]) }
    }
    const untilSec = Number(until)
    let settlesUntilSec = untilSec === 0 ? 0 : untilSec + this.#ports.graceSec
    const earlier = before.get(delegate)?.settlesUntilSec ?? 0
    if (settlesUntilSec < earlier) {
      const soonest = Math.min(funds.nowSec + this.#ports.cancelDelaySec, earlier)
      settlesUntilSec = Math.max(settlesUntilSec, soonest)
    }
    const delegates = new Map(before).set(delegate, { untilSec, settlesUntilSec })
    putRights(funds, account, wallet, { delegates, delegations: delegations + 1n })
    const named = { account, delegate, until, settlesUntil: BigInt(settlesUntilSec) }
    const log = logOf(delegatesAbi, this.delegates, 'DelegateSet', {
      ...named,
      ...(limits as { maxOrderSize: bigint; maxOpenNotional: bigint; markets: readonly Hex[] }),
    })
    return done([log])
  }

  /** Answers a view call of the contract of delegations. */
  readDelegates(data: Hex, funds: Funds): Hex {
    const { functionName, args } = decodedCall(delegatesAbi, data)
    const account = toAddress(String(args[0]))
    if (functionName === 'nonces') return word(funds.wallet(account).rights.delegations)
    // No account has code.
    if (functionName === 'isSigner') {
      const signer = toAddress(String(args[1]))
      return word(signer !== ZERO_ADDRESS && settlesFor(funds, account, signer))
    }
    if (functionName !== 'isCurrent') throw new TypeError(`the model lacks ${functionName}`)
    return word(isCurrentAt(funds, account, toAddress(String(args[1]))))
  }

  /** Answers a view call of the settlement contract about withdrawals; undefined for another function. */
  readWithdrawals(functionName: string, args: readonly unknown[], funds: Funds): Hex | undefined {
    if (functionName === 'orderState') {
      const orderHash = String(args[0]) as OrderHash
      const fromSec = funds.cancelledFromSec(orderHash)
      const words = [BigInt(funds.filledOf(orderHash)), BigInt(fromSec)] as const
      return encodeAbiParameters([{ type: 'uint64' }, { type: 'uint64' }], words)
    }
    if (functionName !== 'epochOf') return undefined
    const { nonce, next, nextFromSec } = funds.wallet(toAddress(String(args[0]))).rights.epoch
    const types = [{ type: 'uint64' }, { type: 'uint64' }, { type: 'uint64' }] as const
    return encodeAbiParameters(types, [nonce, next, BigInt(nextFromSec)])
  }

  /** Returns whether the order's signer may sign for its trader; `vs` is the second word of its signature. */
  isSignedFor({ trader }: Order, vs: Hex, funds: Funds): boolean {
    const signer = toAddress(`0x${vs.slice(-40)}`)
    return isAddressEqual(signer as Hex, OWN as Hex) || settlesFor(funds, trader, signer)
  }
}

/**
 * The second word of an order's signature has this address if the trader's own key signed. If a delegate signed, it has
 * the delegate's address.
 */
const OWN = `0x${'1'.padStart(40, '0')}` as Address

/** Returns whether an order is void for settlement. */
export function isVoid(
  order: Pick<Order, 'trader' | 'nonce'>,
  orderHash: OrderHash,
  funds: Funds,
): boolean {
  const { cancelled, epoch } = funds.wallet(order.trader).rights
  const fromSec = cancelled.get(orderHash)
  if (fromSec !== undefined && funds.nowSec >= fromSec) return true
  const below = funds.nowSec >= epoch.nextFromSec ? epoch.next : epoch.nonce
  return BigInt(order.nonce) < below
}

export function putRights(
  funds: Funds,
  owner: Address,
  wallet: Wallet,
  more: Partial<Rights>,
): void {
  funds.put(owner, { ...wallet, rights: { ...wallet.rights, ...more } })
}

function isCurrentAt(funds: Funds, account: Address, delegate: Address): boolean {
  return funds.nowSec < (funds.wallet(account).rights.delegates.get(delegate)?.untilSec ?? 0)
}

function settlesFor(funds: Funds, account: Address, delegate: Address): boolean {
  const term = funds.wallet(account).rights.delegates.get(delegate)
  return funds.nowSec <= (term?.settlesUntilSec ?? -1)
}
