/**
 * Describes why an order was rejected. Amounts in the exchange's messages are in millionths; they are converted to
 * cents, dollars and shares.
 */

import { SibylError } from '#client/sibyl-error.ts'
import { wordsOf } from '../error-words.ts'
import { cents, money, shares } from '../format.ts'

export function orderWords(error: unknown): string {
  if (!(error instanceof SibylError)) return wordsOf(error)
  const numbers = error.message.match(/\d+/g)?.map(Number) ?? []
  const [first, second] = numbers
  if (error.code === 'POST_ONLY_WOULD_MATCH' && first !== undefined) {
    return `Post only: the order would have traded on arrival, at ${cents(first)}.`
  }
  if (error.code === 'ORDER_NOT_FILLED' && first !== undefined && second !== undefined) {
    return `Only ${shares(first)} of ${shares(second)} shares could be filled on arrival.`
  }
  if (error.code === 'ORDER_NOT_FILLED') return 'No part of the order could be filled on arrival.'
  return shortageWords(error.message) ?? sessionWords(error.message) ?? wordsOf(error)
}

/** Matches the exchange's message about missing funds. Its amounts are in millionths of a dollar or of a share. */
const SHORTAGE = /needs (\d+) millionths of (the stablecoin|YES|NO)/
const MISSING = /(\d{1,78}) (?:is|are) missing/

function shortageWords(message: string): string | undefined {
  const [, need, token] = SHORTAGE.exec(message) ?? []
  const [, missing] = MISSING.exec(message) ?? []
  if (need === undefined || token === undefined || missing === undefined) return undefined
  const write = (amount: string) =>
    token === 'the stablecoin' ? money(BigInt(amount)) : `${shares(BigInt(amount))} ${token}`
  return (
    `The order needs ${write(need)}, but ${write(missing)} are missing. Open orders and unsettled trades reserve ` +
    'funds, too.'
  )
}

/**
 * Matches the exchange's message that the open orders of a delegate would exceed the delegate's limit. On this page the
 * delegate is the session key.
 */
const SESSION_FULL = /open orders of the delegate are worth (\d+);.* its limit of (\d+)/

function sessionWords(message: string): string | undefined {
  const [, open, limit] = SESSION_FULL.exec(message) ?? []
  if (open === undefined || limit === undefined) return undefined
  return `Open orders of the session key are worth ${money(BigInt(open))}; this order would exceed its limit of ${money(BigInt(limit))}.`
}
