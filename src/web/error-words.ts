/** Describes an error of the exchange, the wallet or the network in a sentence for a person. */

import { SibylError } from '#client/sibyl-error.ts'

/** Messages for users, by error code. They replace messages that were written for programs. */
const WORDS: Readonly<Record<string, string>> = {
  NETWORK: 'The exchange cannot be reached. Check your connection.',
  TIMEOUT: 'The exchange did not answer in time.',
  UNEXPECTED_ANSWER: 'The exchange sent an unexpected answer. Reload the page and try again.',
  OVERLOADED: 'The exchange is busy. Try again shortly.',
  RATE_LIMITED: 'Too many requests. Wait a moment, then try again.',
  SIGNATURE_REFUSED: 'You declined the request in the wallet.',
}

/** Messages for the error codes of wallets (EIP-1193, EIP-1474). */
const WALLET_WORDS: Readonly<Record<number, string>> = {
  4001: 'You declined the request in the wallet.',
  4100: 'The wallet does not allow this account to be used here.',
  4200: 'The wallet does not support this request.',
  4900: 'The wallet is not connected.',
  4901: 'The wallet is not connected to this chain.',
  [-32002]:
    'The wallet is waiting for your answer to an earlier request: open the wallet and answer there.',
}

/** Matches the messages of browsers that cannot load a module. */
const LOAD_FAILED = /dynamically imported module|[Ii]mporting a module|error loading/

export function wordsOf(error: unknown): string {
  if (error instanceof SibylError) {
    // The cause is the wallet's own error, which is more specific.
    if (error.code === 'WALLET_FAILED' && error.cause !== undefined) return wordsOf(error.cause)
    const unsure = error.outcomeUnknown
      ? ' The exchange may have executed the request: check before you repeat it.'
      : ''
    return `${WORDS[error.code] ?? sentence(error.message)}${unsure}`
  }
  const code = codeOf(error)
  if (code !== undefined && WALLET_WORDS[code] !== undefined) return WALLET_WORDS[code]
  if (error instanceof TypeError && LOAD_FAILED.test(error.message)) {
    return 'A part of the page could not be loaded. Check your connection, then reload the page.'
  }
  if (error instanceof Error || isMessage(error)) return sentence(error.message)
  return 'Something went wrong. Reload the page and try again.'
}

/** Returns whether the page itself aborted the operation. Such an error need not be shown. */
export function isCalledOff(error: unknown): boolean {
  return error instanceof SibylError && error.code === 'ABORTED'
}

/** Returns the numeric code of an error; undefined if it has none. */
function codeOf(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'number' ? error.code : undefined
}

function isMessage(error: unknown): error is { readonly message: string } {
  return (
    typeof error === 'object' &&
    error !== null &&
    'message' in error &&
    typeof error.message === 'string'
  )
}

function sentence(text: string): string {
  const trimmed = text.trim()
  if (trimmed === '') return 'Something went wrong. Reload the page and try again.'
  const start = trimmed.charAt(0).toUpperCase() + trimmed.slice(1)
  return /[.!?]$/.test(start) ? start : `${start}.`
}
