/**
 * Parses amounts exactly. A decimal string is in whole units: '0.42'. A number or bigint is in the API's millionths:
 * 420000. A number with a fraction, such as 0.42, is rejected, never rounded. The caller probably meant whole units, or
 * the fraction is an error of floating-point arithmetic.
 */

import { UINT256_MAX } from '#domain/ids.ts'
import { SibylError } from './sibyl-error.ts'

export type Amount = string | number | bigint

const DECIMALS = 6
const DECIMAL = /^([0-9]{1,20})(?:\.([0-9]{1,20}))?$/

/**
 * Returns the amount in millionths; throws `INVALID_FIELD` if the amount has a fraction of a millionth or exceeds 2^53.
 */
export function readAmount(field: string, amount: Amount): number {
  const millionths = typeof amount === 'string' ? readDecimal(field, amount) : amount
  const value = Number(millionths)
  if (!Number.isInteger(value)) {
    throw invalid(
      field,
      `a number is in millionths and must be a whole number, not ${amount}; for the amount ${amount}, ` +
        `write it as text: '${amount}'`,
    )
  }
  if (value > Number.MAX_SAFE_INTEGER) {
    throw invalid(
      field,
      `${amount} is more than 9007199254.740991 (9007199254740991 millionths), the maximum`,
    )
  }
  return value
}

const ALLOWANCE: Amount = '10000'

/** Parses an allowance of the stablecoin: 10,000 dollars by default; 'unlimited' is the largest uint256. */
export function readAllowance(value: Amount | 'unlimited' = ALLOWANCE): bigint {
  return value === 'unlimited' ? UINT256_MAX : BigInt(readAmount('value', value))
}

/**
 * Parses a decimal string as text. Appends the fraction, padded to six digits, to the whole part: '0.42' becomes
 * '0420000', the integer 420000. A multiplication of floating-point numbers could round.
 */
function readDecimal(field: string, text: string): bigint {
  const [, whole, fraction = ''] = DECIMAL.exec(text) ?? []
  if (whole === undefined) throw invalid(field, `'${text}' is not a decimal number like '0.42'`)
  if (/[1-9]/.test(fraction.slice(DECIMALS))) {
    throw invalid(field, `'${text}' has more than 6 decimals`)
  }
  return BigInt(whole + fraction.slice(0, DECIMALS).padEnd(DECIMALS, '0'))
}

function invalid(field: string, message: string): SibylError {
  return new SibylError('INVALID_FIELD', `${field}: ${message}`, { field: `order.${field}` })
}
