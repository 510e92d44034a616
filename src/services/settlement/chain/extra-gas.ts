/**
 * Computes the maximum gas that each trader can add to a settlement beyond the gas of ordinary fills. This extra gas
 * comes from permits, and from code of the trader's account. This code may check a signature (EIP-1271), or run when
 * the account receives shares. `store/reads/settlement-charges.ts` charges extra gas to the traders in the result, so
 * that other traders do not pay for it.
 */

import { type Hex, recoverAddress } from 'viem'
import { accountsWithCode } from '#chain/accounts-with-code.ts'
import type { ChainClient } from '#chain/clients.ts'
import type { SettlementPermit } from '#chain/settlement-contract.ts'
import { type Address, toAddress } from '#domain/ids.ts'
import type { VerifiedOrder } from '#domain/order.ts'
import type { ExtraGas } from '#domain/settlement-reference.ts'
import type { TradeToSettle } from '#domain/trade.ts'
import { isPaying, SIDES } from '../trade-sides.ts'

/**
 * Gas of an owner's first permit, which writes two new storage slots, and of each later permit, which overwrites these
 * slots.
 */
const PERMIT_GAS = 55_000
const NEXT_PERMIT_GAS = 25_000
/**
 * Gas limits that the settlement contract sets for calls to a trader's account: when the account receives shares, and
 * when it checks a signature.
 */
const RECEIVE_GAS = 100_000
const SIGNATURE_GAS = 100_000

export async function extraGasOf(
  client: ChainClient,
  {
    trades,
    permits,
  }: {
    readonly trades: readonly TradeToSettle[]
    readonly permits: readonly SettlementPermit[]
  },
): Promise<ExtraGas> {
  const extra: Record<Address, number> = {}
  const add = (trader: Address, gas: number) => {
    extra[trader] = (extra[trader] ?? 0) + gas
  }
  for (const { owner } of permits) add(owner, owner in extra ? NEXT_PERMIT_GAS : PERMIT_GAS)
  const traders = new Set(trades.flatMap(({ buyer, seller }) => [buyer, seller]))
  const coded = await accountsWithCode(client, [...traders])
  if (coded.size === 0) return extra
  const orders = new Map<string, VerifiedOrder>()
  for (const trade of trades) {
    for (const side of SIDES) {
      const order = side === 'buyer' ? trade.buy : trade.sell
      if (!coded.has(order.trader)) continue
      orders.set(order.orderHash, order)
      // A side that pays dollars receives shares, and receiving them may run code of the side's account.
      if (isPaying(trade, side)) add(order.trader, RECEIVE_GAS)
    }
  }
  for (const order of orders.values()) {
    if (!(await isSignedByKey(order))) add(order.trader, SIGNATURE_GAS)
  }
  return extra
}

/**
 * Returns whether the key of the trader's own address signed the order. If not, the contract may call the account's
 * code.
 */
async function isSignedByKey({ orderHash, signature, trader }: VerifiedOrder): Promise<boolean> {
  try {
    const signer = await recoverAddress({
      hash: orderHash as string as Hex,
      signature: signature as Hex,
    })
    return toAddress(signer) === trader
  } catch {
    return false
  }
}
