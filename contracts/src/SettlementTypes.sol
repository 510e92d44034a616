// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// Types that traders sign, that the operator sends, and that `Settlement` reports.

struct Order {
    bytes32 marketId;
    address trader;
    uint8 side;
    uint8 outcome;
    uint64 price;
    uint64 size;
    uint64 nonce;
    uint64 expiration;
    address makerFeeRecipient;
}

/// The signature in the compact form of ERC-2098: `vs` is `s` with the parity of `v` in the
/// highest bit.
struct SignedOrder {
    Order order;
    bytes32 r;
    bytes32 vs;
}

/// `buy` and `sell` are indices into the batch's orders. `seq` and `fillIndex` are the numbers that the exchange
/// assigned to the trade within its market.
///
/// An order with the price q can stand in for an order of the other side and the other outcome at 1 − q. In a mint, a
/// BUY stands in for the SELL, so both orders are BUY, and `price` is for the outcome of `buy`. In a merge, a SELL
/// stands in for the BUY, so both orders are SELL, and `price` is for the outcome of `sell`.
struct Fill {
    uint32 buy;
    uint32 sell;
    uint64 seq;
    uint32 fillIndex;
    uint64 price;
    uint64 size;
}

/// An ERC-2612 permit of the collateral with `Settlement` as the spender, tried just before the fill with the index
/// `fill`. A permit replaces the owner's earlier allowance. So if a batch has two permits of one owner, all fills that
/// need the first one must come before the second one.
struct Permit {
    uint32 fill;
    address owner;
    uint256 value;
    uint256 deadline;
    uint8 v;
    bytes32 r;
    bytes32 s;
}

/// Checked and computed arguments of the call that moves the funds of a fill.
struct Execution {
    bytes32 tradeId;
    bytes32 marketId;
    bytes32 buyHash;
    bytes32 sellHash;
    address buyer;
    address seller;
    uint8 outcome;
    uint64 price;
    uint64 size;
    uint256 cost;
    uint256 positionId;
}

/// State of an order before its fills are checked. `Void` means that the trader has cancelled all orders below a nonce,
/// including this one.
enum Standing {
    Unsigned,
    Good,
    Void
}

/// The side that made a fill fail; `None` if neither side did.
enum Fault {
    None,
    Buyer,
    Seller,
    Both
}

enum Reason {
    None,
    AlreadySettled,
    WrongSide,
    MarketMismatch,
    OutcomeMismatch,
    SizeZero,
    PriceOutOfRange,
    PriceAboveBuyLimit,
    PriceBelowSellLimit,
    InvalidSignature,
    FeeRecipientNotZero,
    OrderExpired,
    OrderCancelled,
    OrderOverfilled,
    MarketUnknown,
    InsufficientCollateral,
    InsufficientAllowance,
    InsufficientShares,
    SharesNotApproved,
    BothUnfunded,
    CollateralRefused,
    SharesRefused
}

/// A constructor argument is invalid: a delay is out of range, or a token address has no code.
error InvalidConfiguration();

uint8 constant BUY = 0;
uint8 constant SELL = 1;
uint8 constant OUTCOMES = 2;
// Kinds of fills, see `Fill`. They are not an enum, because its comparisons would cost every fill
// 100 gas.
uint256 constant TRADE = 0;
uint256 constant MINT = 1;
uint256 constant MERGE = 2;
uint256 constant ONE = 1_000_000;
