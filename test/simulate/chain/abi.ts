/** Calls, logs and errors of contracts in their encoded form. */

import {
  type Abi,
  decodeAbiParameters,
  encodeAbiParameters,
  encodeErrorResult,
  encodeEventTopics,
  type Hex,
  type Address as HexAddress,
  toFunctionSelector,
} from 'viem'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { delegatesAbi } from '#contracts/artifacts/Delegates.abi.ts'
import { marketAbi } from '#contracts/artifacts/Market.abi.ts'
import { marketFactoryAbi } from '#contracts/artifacts/MarketFactory.abi.ts'
import { multicallAbi } from '#contracts/artifacts/Multicall.abi.ts'
import { settlementAbi } from '#contracts/artifacts/Settlement.abi.ts'
import { testUSDCAbi } from '#contracts/artifacts/TestUSDC.abi.ts'
import type { Address } from '#domain/ids.ts'
import type { ModelLog } from './contracts.ts'

/**
 * Functions of the contracts by selector. They are cached because viem hashes every function of an ABI for each
 * look-up.
 */
const FUNCTIONS = new Map(
  [
    ...[settlementAbi, testUSDCAbi, conditionalTokensAbi],
    ...[multicallAbi, marketFactoryAbi, marketAbi, delegatesAbi],
  ].map((abi) => [
    abi as Abi,
    new Map(
      (abi as Abi).flatMap((item) =>
        item.type === 'function' ? [[toFunctionSelector(item), item] as const] : [],
      ),
    ),
  ]),
)

/** Decodes a call of a contract. */
export function decodedCall(
  abi: Abi,
  data: Hex,
): { readonly functionName: string; readonly args: unknown[] } {
  const item = FUNCTIONS.get(abi)?.get(data.slice(0, 10) as Hex)
  if (item === undefined) throw new TypeError(`no function ${data.slice(0, 10)}`)
  const args = data.length === 10 ? [] : decodeAbiParameters(item.inputs, `0x${data.slice(10)}`)
  return { functionName: item.name, args: [...args] }
}

export function logOf(
  abi: Abi,
  address: Address,
  eventName: string,
  args: Readonly<Record<string, unknown>>,
): ModelLog {
  const event = abi.find((item) => item.type === 'event' && item.name === eventName)
  if (event?.type !== 'event') throw new TypeError(`no event ${eventName}`)
  const topics = encodeEventTopics({ abi: [event], eventName, args } as never) as Hex[]
  const plain = event.inputs.filter(({ indexed }) => indexed !== true)
  const values = plain.map(({ name }) => args[name ?? ''])
  const data = encodeAbiParameters(plain, values as never)
  return { address: address as HexAddress, topics, data }
}

export function revertData(abi: Abi, errorName: string, args: readonly unknown[]): Hex {
  return encodeErrorResult({ abi, errorName, args } as never)
}
