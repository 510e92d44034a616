/** Checks that the owner of an operation signed it, with the current nonces of the contracts. */

import { acceptsSignature, isCurrentDelegate } from '#chain/delegates-contract.ts'
import { checksumAddress } from '#domain/checksum-address.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { RelayOperation } from '#domain/relay.ts'
import { type MessageNonces, type SignedMessage, signedMessages } from '#domain/relay-messages.ts'
import { invalidSignature } from './relay-flaws.ts'
import type { RelayExaminerOptions } from './relay-options.ts'

export function makeSignatureCheck(
  options: Pick<RelayExaminerOptions, 'contracts' | 'stablecoin' | 'recover'>,
) {
  const { recover } = options
  const parts = partsOf(options)

  return function signatureFlaw(
    operation: RelayOperation,
    nonces: MessageNonces,
  ): Rejection | undefined {
    const messages = signedMessages(operation, parts, nonces)
    for (const [at, message] of messages.entries()) {
      const { signer, digest } = recover(message, signatureText(message))
      if (signer === operation.owner) continue
      const { nonce } = message.message
      const field = message.isBond ? 'bondR' : `${message.path}r`
      const numbered = nonce === undefined ? '' : ` with nonce ${nonce}`
      const hashed = `the server computed the digest ${digest}${numbered}`
      if (typeof signer === 'object') {
        return invalidSignature(field, `${signer.flaw}; ${hashed}`)
      }
      if (nonces.nonce > 0n && !message.isBond) {
        const before = { ...nonces, nonce: nonces.nonce - 1n }
        const used = signedMessages(operation, parts, before)[at]
        if (used !== undefined && recover(used, signatureText(used)).signer === operation.owner) {
          const detail = `the signature is for nonce ${used.message.nonce}, which was already used: sign with nonce ${nonce}`
          return reject('INVALID_SIGNATURE', field, detail)
        }
      }
      const who = `the recovered signer is ${checksumAddress(signer)}, not ${checksumAddress(operation.owner)}`
      return invalidSignature(field, `${who}; ${hashed}`)
    }
    return undefined
  }
}

/**
 * Makes a function that checks a signature that the owner's key did not make. The function returns `code` if the
 * owner's contract accepts the signature. It returns `delegate` if a current delegate signed a cancellation of single
 * orders; delegates cannot sign other operations. Otherwise it returns undefined.
 */
export function makeContractCheck(
  options: Pick<RelayExaminerOptions, 'client' | 'contracts' | 'stablecoin' | 'recover'>,
) {
  const { client, contracts, recover } = options
  return async (
    operation: RelayOperation,
    nonces: MessageNonces,
  ): Promise<'delegate' | 'code' | undefined> => {
    const { owner: account } = operation
    const [message] = signedMessages(operation, partsOf(options), nonces)
    if (message === undefined) return undefined
    const signature = signatureText(message)
    const { signer, digest } = recover(message, signature)
    if (operation.kind === 'cancel-orders' && typeof signer === 'string') {
      const asked = { account, delegate: signer }
      if (await isCurrentDelegate(client, contracts.settlement, asked)) return 'delegate'
    }
    const asked = { account, digest, signature }
    return (await acceptsSignature(client, contracts.settlement, asked)) ? 'code' : undefined
  }
}

function partsOf({
  contracts,
  stablecoin,
}: Pick<RelayExaminerOptions, 'contracts' | 'stablecoin'>) {
  const { settlement, conditionalTokens } = contracts
  return { settlement, conditionalTokens, stablecoin }
}

function signatureText({ signature: { v, r, s } }: SignedMessage): string {
  return `${r}${s.slice(2)}${v.toString(16)}`
}
