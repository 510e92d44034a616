/**
 * Computes EIP-712 digests of Sibyl's messages, with the keccak implementation of the caller. This general encoder is
 * for rare messages; orders have a faster one in `domain/order-hash.ts`. It supports only the types in Sibyl's
 * messages. Any other type is a bug of the caller and throws.
 */

import assert from 'node:assert/strict'
import type { MessageValue, TypedMessage } from '#domain/relay-messages.ts'
import { typeString } from '#domain/typed-data.ts'

type Keccak256 = (bytes: Uint8Array) => Uint8Array

const DOMAIN_TYPES = {
  EIP712Domain: [
    { name: 'name', type: 'string' },
    { name: 'version', type: 'string' },
    { name: 'chainId', type: 'uint256' },
    { name: 'verifyingContract', type: 'address' },
  ],
}

type Message = TypedMessage['message']
type StructHasher = (message: Message) => Uint8Array

export function typedDataDigest(typed: TypedMessage, keccak256: Keccak256): Uint8Array {
  return makeTypedDataHasher(typed, keccak256)(typed.message)
}

/** Returns a hasher for many messages of one type in one domain; the hashes of type and domain are computed once. */
export function makeTypedDataHasher(
  { domain, primaryType, types }: Omit<TypedMessage, 'message'>,
  keccak256: Keccak256,
): StructHasher {
  const separator = structHasher('EIP712Domain', DOMAIN_TYPES, keccak256)({ ...domain })
  const head = Buffer.concat([Buffer.from([0x19, 0x01]), separator])
  const hashStruct = structHasher(primaryType, types, keccak256)
  return (message) => keccak256(Buffer.concat([head, hashStruct(message)]))
}

function structHasher(
  primaryType: string,
  types: TypedMessage['types'],
  keccak256: Keccak256,
): StructHasher {
  const typeHash = keccak256(Buffer.from(typeString(primaryType, types), 'utf8'))
  return (message) => {
    const words = [typeHash]
    for (const { name, type } of types[primaryType] ?? []) {
      const value = message[name]
      assert(value !== undefined, `the message of type ${primaryType} lacks the field ${name}`)
      words.push(word(type, value, keccak256))
    }
    return keccak256(Buffer.concat(words))
  }
}

function word(type: string, value: MessageValue, keccak256: Keccak256): Uint8Array {
  if (type === 'string') return keccak256(Buffer.from(String(value), 'utf8'))
  if (type.endsWith('[]')) {
    assert(Array.isArray(value), `${type} is a list`)
    const items = (value as readonly string[]).map((item) =>
      word(type.slice(0, -2), item, keccak256),
    )
    return keccak256(Buffer.concat(items))
  }
  if (type === 'address' || type === 'bytes32') return leftPadded(String(value).slice(2))
  if (type === 'bool') return leftPadded(value === true ? '01' : '00')
  assert(type.startsWith('uint'), `a value of the type ${type} cannot be encoded`)
  const digits = BigInt(value as string | number).toString(16)
  return leftPadded(digits.length % 2 === 0 ? digits : `0${digits}`)
}

function leftPadded(digits: string): Uint8Array {
  const bytes = Buffer.alloc(32)
  const length = digits.length / 2
  // Check that the digits are ASCII, because the decoder reads only the low byte of a character.
  const isAscii = Buffer.byteLength(digits) === digits.length
  const written = length <= 32 ? bytes.write(digits, 32 - length, 'hex') : 0
  assert(isAscii && written === length, 'a value must be at most 32 whole bytes in hex')
  return bytes
}
