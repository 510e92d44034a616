// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Pausable} from "@openzeppelin/contracts/utils/Pausable.sol";
import {Delegates} from "./Delegates.sol";
import {InvalidConfiguration, Order, SignedOrder, Standing} from "./SettlementTypes.sol";

/// Checks who signed an order, and whether its trader has cancelled it. A trader cancels single orders, or all orders
/// below a nonce (an epoch). Inherits `Pausable` only so that `_groupsWithEpoch` shares the storage slot of `_paused`.
abstract contract SignedOrders is EIP712, Pausable {
    /// State of an order, in one slot. Each trade must be recorded, so that it never settles twice. A separate slot for
    /// each trade would cost a fifth of the trade's gas. But every fill writes the order's slot anyway, so this slot
    /// also records the order's first trade. It keeps the low 152 bits of the trade's id, which are compared only with
    /// trades of the same order. A trade gets its own slot only if both its orders already record another trade.
    struct OrderState {
        uint64 filled;
        /// Time at which the trader's cancellation takes effect; zero if the order is not
        /// cancelled.
        uint40 cancelledFrom;
        uint152 firstTrade;
    }

    /// The trader's cancellations of all orders below a nonce. Orders with a nonce below `nonce` are void. At the time
    /// `nextFrom`, `next` replaces `nonce`. Both nonces only increase.
    struct Epoch {
        uint64 nonce;
        uint64 next;
        uint40 nextFrom;
    }

    uint256 private constant CANCEL_DELAY_MAX = 7 days;

    /// Gas that must be left for each order that was not signed with its trader's own key. It pays for the query of
    /// `Delegates`, including `SIGNATURE_GAS`. Before the code of any account runs, this gas and the gas of all fills
    /// and permits must be left. So no account can make a batch run out of gas after a successful simulation.
    uint256 internal constant SIGNER_GAS = 130_000;

    bytes32 public constant ORDER_TYPEHASH = keccak256(
        "Order(bytes32 marketId,address trader,uint8 side,uint8 outcome,uint64 price,uint64 size,uint64 nonce,uint64 expiration,address makerFeeRecipient)"
    );

    /// `CancelOrders` and `CancelAllBefore` need no sequential signature nonce. A repeated
    /// cancellation changes nothing, and with sequential nonces one lost message would block all
    /// later ones.
    bytes32 public constant CANCEL_ORDERS_TYPEHASH =
        keccak256("CancelOrders(address trader,bytes32[] orderHashes,uint256 deadline)");
    bytes32 public constant CANCEL_ALL_BEFORE_TYPEHASH =
        keccak256("CancelAllBefore(address trader,uint64 nonce,uint256 deadline)");

    /// Number of groups into which traders are divided by address. One bit per group fits into
    /// the slot of `_paused`.
    uint256 private constant GROUPS = 88;
    /// Groups that contain a trader with an epoch, one bit each. For a trader of any other group,
    /// the epoch is not read, which saves 2,100 gas per order.
    uint88 private _groupsWithEpoch;

    /// Time after an order's expiration for which its trades may still settle, because they were
    /// matched before the order expired.
    uint64 public immutable settlementGrace;
    /// Time after a cancellation on chain for which an order's trades may still settle. It is
    /// longer than `settlementGrace`. Otherwise a trader could cancel an order to avoid a trade
    /// that is already matched.
    uint64 public immutable cancelDelay;
    /// Contract with the keys that accounts appointed. The constructor of `Settlement` deploys it,
    /// so its address follows from the address of `Settlement`.
    Delegates public immutable delegates;

    mapping(bytes32 orderHash => OrderState) internal _orders;
    mapping(address trader => Epoch) private _epochs;

    event OrderCancelled(bytes32 indexed orderHash, address indexed trader, uint64 effectiveAt);
    event AllOrdersCancelled(address indexed trader, uint64 beforeNonce, uint64 effectiveAt);

    error NotTrader(bytes32 orderHash);
    /// The deadline of a signed cancellation has passed.
    error PermitExpired(uint256 deadline);
    /// The signature was made by another account, or for other data (another chain or contract).
    error PermitSignerMismatch(address signer, address owner);
    /// The trader's last `cancelAllBefore` has not taken effect yet. Until then the trader cannot
    /// make another one.
    error EpochPending(uint64 effectiveAt);
    error TooLittleGas(uint256 fill);

    constructor(uint64 settlementGrace_, uint64 cancelDelay_) EIP712("SibylSettlement", "1") {
        if (cancelDelay_ <= settlementGrace_ || cancelDelay_ > CANCEL_DELAY_MAX) {
            revert InvalidConfiguration();
        }
        settlementGrace = settlementGrace_;
        cancelDelay = cancelDelay_;
        delegates = new Delegates(settlementGrace_, cancelDelay_);
    }

    /// Cancels the caller's orders. The cancellation takes effect after `cancelDelay`, so that
    /// trades that the exchange has already matched still settle.
    function cancelOrders(Order[] calldata orders) external {
        _cancelOrders(msg.sender, orders);
    }

    /// Does `cancelOrders` for `trader`. Any caller may send the trader's signature of the orders' hashes. The
    /// signature of a current delegate is enough.
    function cancelOrdersWithPermit(
        address trader,
        Order[] calldata orders,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        bytes32 hashes = keccak256(abi.encodePacked(_cancelOrders(trader, orders)));
        bytes32 structHash =
            keccak256(abi.encode(CANCEL_ORDERS_TYPEHASH, trader, hashes, deadline));
        _requireSigned(structHash, trader, true, deadline, v, r, s);
    }

    /// Cancels every order of the caller whose nonce is below `nonce`, including orders that the
    /// contract has not seen. Takes effect after `cancelDelay`. If the caller later signs an order
    /// with such a nonce, that order is void, too.
    function cancelAllBefore(uint64 nonce) external {
        _cancelAllBefore(msg.sender, nonce);
    }

    /// Does `cancelAllBefore` for `trader`. Any caller may send the trader's signature. A
    /// delegate's signature is not enough, because a delegate could void all later orders of the
    /// trader for good.
    function cancelAllBeforeWithPermit(
        address trader,
        uint64 nonce,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        bytes32 structHash =
            keccak256(abi.encode(CANCEL_ALL_BEFORE_TYPEHASH, trader, nonce, deadline));
        _requireSigned(structHash, trader, false, deadline, v, r, s);
        _cancelAllBefore(trader, nonce);
    }

    /// Returns the EIP-712 digest that the trader signs. The digest identifies the order.
    function hashOrder(Order calldata order) public view returns (bytes32) {
        return MessageHashUtils.toTypedDataHash(_domainSeparatorV4(), _structHash(order));
    }

    function orderState(bytes32 orderHash)
        external
        view
        returns (uint64 filled, uint64 cancelledFrom)
    {
        OrderState memory state = _orders[orderHash];
        return (state.filled, state.cancelledFrom);
    }

    /// Returns the nonce below which a trader's orders are void, and the nonce that replaces it
    /// from `nextFrom` on.
    function epochOf(address trader)
        external
        view
        returns (uint64 nonce, uint64 next, uint64 nextFrom)
    {
        Epoch memory epoch = _epochs[trader];
        return (epoch.nonce, epoch.next, epoch.nextFrom);
    }

    function DOMAIN_SEPARATOR() external view returns (bytes32) {
        return _domainSeparatorV4();
    }

    /// Hashes the orders and recovers their signers. `others` is the number of orders that are not signed with their
    /// trader's own key. They are `Unsigned` until `_askDelegates` checks them.
    function _hashAndRecover(SignedOrder[] calldata orders)
        internal
        view
        returns (bytes32[] memory hashes, Standing[] memory standings, uint256 others)
    {
        bytes32 domainSeparator = _domainSeparatorV4();
        hashes = new bytes32[](orders.length);
        standings = new Standing[](orders.length);
        uint256 groups = _groupsWithEpoch;
        for (uint256 i = 0; i < orders.length; ++i) {
            SignedOrder calldata o = orders[i];
            bytes32 digest =
                MessageHashUtils.toTypedDataHash(domainSeparator, _structHash(o.order));
            (address signer,,) = ECDSA.tryRecover(digest, o.r, o.vs);
            hashes[i] = digest;
            if (signer == address(0) || signer != o.order.trader) ++others;
            else standings[i] = _standing(o.order, groups);
        }
    }

    /// Asks `Delegates` whether to accept the signatures that were not made with the trader's own key. Reverts if less
    /// gas than `gasNeeded` is left. `gasNeeded` is the maximum that the batch needs from here on, whatever its traders
    /// do.
    function _askDelegates(
        SignedOrder[] calldata orders,
        bytes32[] memory hashes,
        Standing[] memory standings,
        uint256 gasNeeded
    ) internal view {
        uint256 groups = _groupsWithEpoch;
        if (gasleft() < gasNeeded) revert TooLittleGas(0);
        for (uint256 i = 0; i < orders.length; ++i) {
            if (standings[i] != Standing.Unsigned) continue;
            SignedOrder calldata o = orders[i];
            (address signer,,) = ECDSA.tryRecover(hashes[i], o.r, o.vs);
            if (delegates.isSigner(o.order.trader, signer, hashes[i], o.r, o.vs)) {
                standings[i] = _standing(o.order, groups);
            }
        }
    }

    function _isExpired(Order calldata order) internal view returns (bool) {
        return block.timestamp > uint256(order.expiration) + settlementGrace;
    }

    function _isCancelled(OrderState memory state) internal view returns (bool) {
        return state.cancelledFrom != 0 && block.timestamp >= state.cancelledFrom;
    }

    function _cancelOrders(address trader, Order[] calldata orders)
        private
        returns (bytes32[] memory hashes)
    {
        uint40 effectiveAt = uint40(block.timestamp + cancelDelay);
        hashes = new bytes32[](orders.length);
        for (uint256 i = 0; i < orders.length; ++i) {
            bytes32 orderHash = hashOrder(orders[i]);
            hashes[i] = orderHash;
            if (orders[i].trader != trader) revert NotTrader(orderHash);
            OrderState storage state = _orders[orderHash];
            if (state.cancelledFrom != 0) continue;
            state.cancelledFrom = effectiveAt;
            emit OrderCancelled(orderHash, trader, effectiveAt);
        }
    }

    /// Voids the trader's orders below `nonce` after `cancelDelay`. If an earlier cancellation covers these orders,
    /// does nothing, so that a repeated cancellation cannot delay the first one.
    function _cancelAllBefore(address trader, uint64 nonce) private {
        Epoch memory epoch = _epochs[trader];
        if (nonce <= epoch.next) return;
        // A pending cancellation cannot be changed. Replacing it would start its delay again. Raising its nonce would
        // void more orders without the full delay, although the exchange may already have matched them.
        if (block.timestamp < epoch.nextFrom) revert EpochPending(epoch.nextFrom);
        uint40 effectiveAt = uint40(block.timestamp + cancelDelay);
        _epochs[trader] = Epoch({nonce: epoch.next, next: nonce, nextFrom: effectiveAt});
        _groupsWithEpoch |= uint88(1 << _groupOf(trader));
        emit AllOrdersCancelled(trader, nonce, effectiveAt);
    }

    function _requireSigned(
        bytes32 structHash,
        address trader,
        bool byDelegate,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) private view {
        if (block.timestamp > deadline) revert PermitExpired(deadline);
        bytes32 digest = _hashTypedDataV4(structHash);
        (address signer,,) = ECDSA.tryRecover(digest, v, r, s);
        if (signer != address(0) && signer == trader) return;
        // A delegate cannot cancel orders after its term or its revocation. But trades of orders that it signed may
        // still settle for some time.
        if (byDelegate && delegates.isCurrent(trader, signer)) return;
        bytes32 vs = s | bytes32(uint256(v == 28 ? 1 : 0) << 255);
        if (!delegates.isSigner(trader, address(0), digest, r, vs)) {
            revert PermitSignerMismatch(signer, trader);
        }
    }

    /// Returns the standing of a signed order: `Void` if its trader's epoch has voided it,
    /// otherwise `Good`.
    function _standing(Order calldata order, uint256 groups) private view returns (Standing) {
        bool mayBeVoid = (groups >> _groupOf(order.trader)) & 1 != 0;
        bool isVoid = mayBeVoid && order.nonce < _epochNow(order.trader);
        return isVoid ? Standing.Void : Standing.Good;
    }

    function _structHash(Order calldata order) private pure returns (bytes32) {
        return keccak256(abi.encode(ORDER_TYPEHASH, order));
    }

    function _groupOf(address trader) private pure returns (uint256) {
        return uint160(trader) % GROUPS;
    }

    /// Returns the nonce below which the trader's orders are void at this time.
    function _epochNow(address trader) private view returns (uint64) {
        Epoch memory epoch = _epochs[trader];
        return block.timestamp >= epoch.nextFrom ? epoch.next : epoch.nonce;
    }
}
