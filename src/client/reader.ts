/**
 * Reads from an exchange without a signer, a stream or a chain. A page that only lists markets can bundle this file
 * instead of the whole client.
 */

import { type ClientReads, createReads, type UserOfChain } from './reads.ts'
import { SibylError } from './sibyl-error.ts'
import { createTransport, type TransportOptions } from './transport.ts'

/**
 * Creates the functions that read from the exchange. Functions that read a user's data need an `address` and a
 * `chainId`.
 */
export function createReader(options: TransportOptions): ClientReads {
  return createReads({ send: createTransport(options), userOf: namedUser })
}

async function namedUser({ address, chainId }: UserOfChain) {
  if (address !== undefined && chainId !== undefined) return { user: address, chainId }
  const field = address === undefined ? 'address' : 'chainId'
  throw new SibylError(
    'MISSING_FIELD',
    `the field "${field}" is required, because a reader has no signer`,
    { field },
  )
}
