/** Finds accounts that have code: contracts, and keys with a delegation (EIP-7702). */

import { Fault } from '#domain/fault.ts'
import type { Address } from '#domain/ids.ts'
import { asked, type ChainClient } from './clients.ts'

/**
 * Bytecode that is only called, never deployed. The caller appends each address as one word. The code
 * replaces each address by the size of the code at that address and returns all words, so one call answers
 * for all accounts.
 *
 *   size = CODESIZE - 30; CODECOPY(0, 30, size)
 *   for (i = size; i != 0; ) { i -= 32; mem[i] = EXTCODESIZE(mem[i]) }
 *   RETURN(0, size)
 */
const CODE_SIZES = '0x601e380380601e5f39805b8015601c576020900380513b8152600a565bf3'
const WORD_DIGITS = 64

/**
 * Returns the given accounts that have code in the newest block. If the node refuses the call, returns an empty set,
 * because settlement must also work with such a node.
 */
export async function accountsWithCode(
  { viem }: ChainClient,
  accounts: readonly Address[],
): Promise<ReadonlySet<Address>> {
  if (accounts.length === 0) return new Set()
  const words = accounts.map((account) => account.slice(2).padStart(WORD_DIGITS, '0'))
  try {
    const { data = '0x' } = await asked(viem.call({ data: `${CODE_SIZES}${words.join('')}` }))
    const sizeOf = (at: number): string => data.slice(2 + at * WORD_DIGITS).slice(0, WORD_DIGITS)
    return new Set(accounts.filter((_, at) => /[1-9a-f]/.test(sizeOf(at))))
  } catch (error) {
    if (error instanceof Fault && !error.retryable) return new Set()
    throw error
  }
}
