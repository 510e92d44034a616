/**
 * Builds and simulates contract calls. An adapter builds a call, `simulate` predicts its result, and a sender then
 * signs the call and sends it as a transaction.
 */

import type {
  Abi,
  ContractFunctionArgs,
  ContractFunctionName,
  ContractFunctionReturnType,
  Hex,
} from 'viem'
import { encodeFunctionData } from 'viem'
import type { Address } from '#domain/ids.ts'
import { asked, type ChainClient, chainFault } from './clients.ts'
import { type Revert, revertOf } from './revert.ts'
import { offeredFees } from './sender/offered-fees.ts'

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

/** Returns a function that reads from a contract, at the newest block or at the given one. */
export function readerOf<const A extends Abi>({ viem }: ChainClient, address: Address, abi: A) {
  return <F extends ContractFunctionName<A, 'pure' | 'view'>>(
    functionName: F,
    args: ContractFunctionArgs<A, 'pure' | 'view', F>,
    blockNumber?: bigint,
  ) => {
    const request = {
      ...{ address: hexAddress(address), abi: abi as Abi, functionName: functionName as string },
      ...{
        args: args as readonly unknown[],
        ...(blockNumber === undefined ? {} : { blockNumber }),
      },
    }
    type Result = ContractFunctionReturnType<A, 'pure' | 'view', F>
    return asked(viem.readContract(request) as Promise<Result>)
  }
}

/**
 * Simulates the call as a transaction that `from` would send now, with the fees that the exchange would offer. Returns
 * the gas and the result of the call, or the revert.
 */
export async function simulate(
  client: ChainClient,
  call: Call,
  from: Address,
): Promise<Simulation> {
  try {
    const request = await requestOf(client, call, from)
    const { data: returned = '0x' } = await client.viem.call(request)
    const gas = await client.viem.estimateGas(request)
    return { ok: true, gas, returned }
  } catch (error) {
    return { ok: false, revert: revertIn(error) }
  }
}

/** Returns the gas that the call would need if `from` sent it as a transaction now, or the revert. */
export async function gasOf(
  client: ChainClient,
  call: Call,
  from: Address,
): Promise<bigint | Revert> {
  try {
    return await client.viem.estimateGas(await requestOf(client, call, from))
  } catch (error) {
    return revertIn(error)
  }
}

async function requestOf({ viem }: ChainClient, { to, data }: Call, from: Address) {
  const fees = await offeredFees(viem)
  return { account: hexAddress(from), to: hexAddress(to), data, ...fees }
}

/** Returns the revert in a request's error; throws a fault if the request failed for another reason. */
function revertIn(error: unknown): Revert {
  const revert = revertOf(error)
  if (revert !== undefined) return revert
  throw chainFault(error)
}

/** Converts our lower-case addresses to viem's type. */
export function hexAddress(address: Address): Hex {
  return address as Hex
}
