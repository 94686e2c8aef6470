"""URLs and names of tables that a definition may hold, and those that it may not."""

from __future__ import annotations

import pytest

from headrace.model.jdbc import address, quoted_table, table_fault, url_fault


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://localhost/shop",
        "jdbc:postgresql://10.0.0.1:5432/shop",
        "jdbc:postgresql://[::1]:5432/shop?sslmode=require&connectTimeout=5",
        "jdbc:postgresql://one:5432,two:5432/shop?targetServerType=primary",
        "jdbc:postgresql://db.example/shop?",
    ],
)
def test_an_address_with_harmless_parameters_is_taken(url: str) -> None:
    assert url_fault(url) is None


@pytest.mark.parametrize(
    "parameter",
    [
        "socketFactory=org.springframework.context.support.ClassPathXmlApplicationContext",
        "socketFactoryArg=file:/etc/passwd",
        "sslfactory=org.example.Factory",
        "sslfactoryarg=file:/etc/passwd",
        "SSLFACTORY=org.example.Factory",
        "sslhostnameverifier=org.example.Verifier",
        "sslpasswordcallback=org.example.Callback",
        "authenticationPluginClassName=org.example.Plugin",
        "loggerLevel=TRACE",
        "loggerFile=/etc/cron.d/x",
        "sslkey=/etc/ssl/private",
        "sslrootcert=/etc/ssl/private",
        "jaasApplicationName=x",
        "xmlFactoryFactory=org.example.Factory",
        "service=other",
        "options=-c%20search_path=x",
        "socketFactory",
    ],
)
@pytest.mark.parametrize("before", ["", "ssl=true&", "&"])
def test_a_parameter_that_names_a_class_or_a_file_is_refused(parameter: str, before: str) -> None:
    fault = url_fault(f"jdbc:postgresql://localhost/shop?{before}{parameter}")
    assert fault is not None
    assert parameter.partition("=")[0] in fault


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:h2:mem:test;INIT=RUNSCRIPT FROM 'x'",
        "jdbc:mysql://localhost/shop?autoDeserialize=true",
        "jdbc:postgresql:shop",
        "jdbc:postgresql:///shop",
        "jdbc:postgresql://localhost",
        "jdbc:postgresql://localhost/",
        "jdbc:postgresql://localhost/a/b",
        "jdbc:postgresql://localhost\\@evil/shop",
        "jdbc:postgresql://localhost/shop#x",
        "jdbc:postgresql://localhost/shop ?ssl=true",
        "postgresql://localhost/shop",
        " jdbc:postgresql://localhost/shop",
        "jdbc:postgresql://localhost/shop\n?socketFactory=x",
    ],
)
def test_any_other_form_is_refused(url: str) -> None:
    assert url_fault(url) is not None


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    fault = url_fault("jdbc:postgresql://localhost/shop?user=me&password=geheim")
    assert fault == "must not hold the user, which is an option of its own"
    fault = url_fault("jdbc:postgresql://me:geheim@localhost/shop")
    assert fault is not None
    assert "geheim" not in fault


def test_what_is_shown_of_an_address_is_the_host_and_the_database() -> None:
    assert address("jdbc:postgresql://db:5432/shop?ssl=true") == "db:5432/shop"


@pytest.mark.parametrize("table", ["orders", "Orders", "shop.orders", "a b", "order; DROP TABLE x"])
def test_a_table_with_or_without_a_schema_is_taken_and_quoted(table: str) -> None:
    assert table_fault(table) is None
    assert quoted_table(table) == ".".join(f'"{part}"' for part in table.split("."))


@pytest.mark.parametrize("table", ["", "a.b.c", ".a", "a.", 'a"b', '"a"', "a\0b", "é" * 32])
def test_what_cannot_name_a_table_is_refused(table: str) -> None:
    assert table_fault(table) is not None
