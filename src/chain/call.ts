/**
 * A call of a contract before it is signed. Adapters make calls, `simulate` tells what would
 * become of one, and a sender signs and sends it.
 */

import type { Abi, ContractFunctionArgs, ContractFunctionName, Hex } from 'viem'
import { encodeFunctionData } from 'viem'
import type { Address } from '#domain/ids.ts'
import { type ChainClient, chainFault } from './clients.ts'
import { type Revert, revertOf } from './revert.ts'

export type Call = { readonly to: Address; readonly data: Hex }

type Simulation =
  | { readonly ok: true; readonly gas: bigint; readonly returned: Hex }
  | { readonly ok: false; readonly revert: Revert }

export function callOf<
  const A extends Abi,
  F extends ContractFunctionName<A, 'nonpayable' | 'payable'>,
>(
  to: Address,
  abi: A,
  functionName: F,
  args: ContractFunctionArgs<A, 'nonpayable' | 'payable', F>,
): Call {
  const data = encodeFunctionData({
    abi: abi as Abi,
    functionName: functionName as string,
    args: args as readonly unknown[],
  })
  return { to, data }
}

/** What would happen if `from` sent the call now: its gas and what it returns, or why it reverts. */
export async function simulate(
  client: ChainClient,
  call: Call,
  from: Address,
): Promise<Simulation> {
  const request = { account: hexAddress(from), to: hexAddress(call.to), data: call.data }
  try {
    const { data: returned = '0x' } = await client.viem.call(request)
    const gas = await client.viem.estimateGas(request)
    return { ok: true, gas, returned }
  } catch (error) {
    const revert = revertOf(error)
    if (revert !== undefined) return { ok: false, revert }
    throw chainFault(error)
  }
}

/** Our lower-case addresses, as viem's types want them. */
export function hexAddress(address: Address): Hex {
  return address as Hex
}
