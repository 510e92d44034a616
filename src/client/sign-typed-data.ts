/**
 * Signs typed data of `domain/typed-data.ts`, and splits the signature into the parts that the relayer expects. Uses
 * the same signer as orders.
 */

import type { Hex } from '#domain/typed-data.ts'
import type { SignatureScheme } from '#protocol/shapes/config.ts'
import { SibylError } from './sibyl-error.ts'
import type { OrderSigner } from './sign-order.ts'

export type TypedValue = string | bigint | number | boolean | readonly bigint[] | readonly string[]

/** Data that a wallet signs and shows to its owner. */
export type TypedData = {
  readonly domain: SignatureScheme['domain']
  readonly types: SignatureScheme['types']
  readonly primaryType: string
  readonly message: Readonly<Record<string, TypedValue>>
}

export type SignatureParts = { readonly v: 27 | 28; readonly r: string; readonly s: string }

const SIGNATURE = /^0x([0-9a-fA-F]{64})([0-9a-fA-F]{64})([0-9a-fA-F]{2})$/

export async function signTypedData(
  signer: OrderSigner,
  scheme: SignatureScheme,
  message: TypedData['message'],
  verifyingContract = scheme.domain.verifyingContract,
): Promise<SignatureParts> {
  const domain = {
    ...scheme.domain,
    ...(verifyingContract === undefined ? {} : { verifyingContract }),
  }
  const typed: TypedData = {
    domain,
    types: scheme.types,
    primaryType: scheme.primaryType,
    message,
  }
  const signing =
    typeof signer === 'string' ? (await import('./local-key.ts')).accountOf(signer) : signer
  // The cast is needed, because the signer's type covers only orders, although a signer accepts any typed data.
  const sign = signing.signTypedData as unknown as (typed: TypedData) => Promise<string>
  return partsOf(await sign.call(signing, typed))
}

function partsOf(signature: string): SignatureParts {
  const [, r, s, last = ''] = SIGNATURE.exec(signature) ?? []
  const v = Number.parseInt(last, 16)
  const normal = v < 2 ? v + 27 : v
  if (r === undefined || s === undefined || (normal !== 27 && normal !== 28)) {
    const message =
      'the signer returned a signature that does not have 65 bytes; the relayer does not support contract wallets'
    throw new SibylError('INVALID_SIGNATURE', message, { field: 'signature' })
  }
  return { v: normal, r: `0x${r}` as Hex, s: `0x${s}` as Hex }
}
