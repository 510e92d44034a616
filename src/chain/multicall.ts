/** Combines several calls into one with `aggregate3` of Multicall3. */

import { decodeFunctionResult, type Hex } from 'viem'
import { multicallAbi } from '#contracts/artifacts/Multicall.abi.ts'
import type { Address } from '#domain/ids.ts'
import { type Call, callOf, hexAddress } from './call.ts'
import { decodeRevert, type Revert } from './revert.ts'

type MulticallResult =
  | { readonly ok: true; readonly returned: Hex }
  | { readonly ok: false; readonly revert: Revert }

type Multicall = {
  readonly address: Address
  /**
   * Combines calls into one. With `allowFailure`, a call that reverts does not affect the other calls, and a simulation
   * returns the revert reason of that call. Without `allowFailure`, one call that reverts reverts all calls, and a
   * simulation returns only the multicall contract's own reason.
   */
  aggregateCall(calls: readonly Call[], allowFailure?: boolean): Call
  /** Decodes the result of a simulated `aggregateCall`. Returns one result per call. */
  resultsOf(returned: Hex): MulticallResult[]
}

export function multicall(address: Address): Multicall {
  return {
    address,
    aggregateCall: (calls, allowFailure = false) =>
      callOf(address, multicallAbi, 'aggregate3', [
        calls.map(({ to, data }) => ({ target: hexAddress(to), allowFailure, callData: data })),
      ]),
    resultsOf(returned) {
      const results = decodeFunctionResult({
        abi: multicallAbi,
        functionName: 'aggregate3',
        data: returned,
      })
      return results.map(({ success, returnData }) =>
        success
          ? { ok: true, returned: returnData }
          : { ok: false, revert: decodeRevert(returnData) },
      )
    },
  }
}
